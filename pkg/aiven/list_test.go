package aiven

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

func TestServicesAreListed(t *testing.T) {
	f := newFixture(t)
	f.sim.AddProject("empty")
	got, err := f.Services(t.Context(), "dev")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, []Listed{{kafka, TypeKafka}, {search, TypeOpenSearch}, {valkey, TypeValkey}}, got)
	if got, err := f.Services(t.Context(), "empty"); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := f.Services(t.Context(), "nothing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if n := f.requests(aivensim.ServiceUserGet) + f.requests(aivensim.ServiceGet); n > 0 {
		t.Errorf("%d services or users were read", n)
	}
}

func TestAListThatIsIncompleteIsRefused(t *testing.T) {
	for _, body := range []string{`{}`, `{"services":null,"errors":[{"message":"x","status":500}]}`, `{"services":[{"service_name":"a"}]}`, `{"services":[{}]}`, `{"services":{}}`} {
		if got, err := answering(t, 200, body).Services(t.Context(), "dev"); err == nil {
			t.Errorf("%s: got %v", body, got)
		}
	}
}

func TestUsersTellWhenTheirPasswordWasSet(t *testing.T) {
	f := newFixture(t)
	f.kafka.AddUser(aivensim.User{Username: "app"})
	u, _ := f.read(t, kafka).User("app")
	diff(t, start, u.PasswordUpdated)
}

func FuzzDecodeServices(f *testing.F) {
	for _, body := range []string{
		`{"services":[{"service_name":"kafka","service_type":"kafka","users":[{"username":"a","password":"b"}]}]}`, `{"services":null}`, `{"services":[null]}`,
		`null`, `{}`, `{"errors":[{"message":"gone","status":404}]}`, strings.Repeat(`{"services":[`, 20000),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := decodeServices(json.NewDecoder(bytes.NewReader(body)), "p")
		if err != nil {
			return
		}
		for _, s := range list {
			if s.Project != "p" || s.Service == "" || s.Type == "" {
				t.Errorf("an incomplete service passes: %+v", s)
			}
		}
	})
}
