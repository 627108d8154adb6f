package secret

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/golden"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// certificates are a CA and a pair that it issued, made once for all tests.
type certificates struct{ ca, cert, key string }

func newCertificates(t *testing.T) certificates {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "user"}, NotAfter: start.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return certificates{ca: cert, cert: cert, key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))}
}

// services answers from a map.
type services struct {
	byName map[string]*aiven.Service
	ca     string
	err    error
}

func (s *services) Service(_ context.Context, ref aiven.Ref) (*aiven.Service, error) {
	return s.byName[ref.Service], s.err
}

func (s *services) CA(context.Context, string) (string, error) { return s.ca, s.err }

func component(name, usage, host string, port int) aiven.Component {
	return aiven.Component{Component: name, Usage: usage, Route: "dynamic", Host: host, Port: port, SSL: true}
}

// constant are the stores of an installation that sets nothing.
var constant = Stores{Encoding: credstore.Modern, Password: "changeme"}

// world is what a test of this package needs.
type world struct {
	*Resource
	client.Client
	services *services
	clock    *clocktesting.FakePassiveClock
	certs    certificates
}

func newWorld(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *world {
	t.Helper()
	w := &world{certs: newCertificates(t), clock: clocktesting.NewFakePassiveClock(start)}
	w.Client = fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	w.services = &services{ca: w.certs.ca, byName: map[string]*aiven.Service{
		"kafka": {Components: []aiven.Component{
			{Component: "kafka", Usage: "primary", Route: "dynamic", Host: "kafka.example", Port: 2, SSL: true, KafkaAuthenticationMethod: "sasl"},
			component("kafka", "primary", "kafka.example", 1), component("schema_registry", "primary", "registry.example", 3),
		}},
		"search": {Components: []aiven.Component{component("opensearch_dashboards", "primary", "dashboards.example", 443), component("opensearch", "primary", "search.example", 4)}},
		"cache":  {Components: []aiven.Component{component("valkey", "replica", "replica.example", 6), component("valkey", "primary", "cache.example", 5)}},
		"bare":   {Components: []aiven.Component{component("valkey", "primary", "bare.example", 5)}},
		"empty":  {},
	}}
	w.Resource = New(w.Client, w.services, w.clock, prometheus.NewRegistry(), Settings{
		Project: "main", Finalizer: "operatorkit.giantswarm.io/test", Stores: constant,
	})
	return w
}

func (w *world) kafka() *binding.Binding {
	return &binding.Binding{Kind: binding.Kafka, Ref: aiven.Ref{Project: "dev", Service: "kafka"}, Username: "kafka-user",
		User: &aiven.User{Name: "kafka-user", Password: "kafka-password", Certificate: w.certs.cert, Key: w.certs.key}}
}

func openSearch() *binding.Binding {
	return &binding.Binding{Kind: binding.OpenSearch, Ref: aiven.Ref{Project: "main", Service: "search"}, Username: "search-user",
		User: &aiven.User{Name: "search-user", Password: "search-password"}}
}

func valkey(instance, service string) *binding.Binding {
	return &binding.Binding{Kind: binding.Valkey, Instance: instance, Ref: aiven.Ref{Project: "main", Service: service}, Username: instance + "-user",
		User: &aiven.User{Name: instance + "-user", Password: instance + "-password"}}
}

func set(bindings ...*binding.Binding) *binding.Set {
	return &binding.Set{
		Namespace: "shop", Application: "cart", Secret: "creds", Bindings: bindings,
		Labels:      map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: "cart"},
		Annotations: map[string]string{key.AnnotationOwner: key.Owner("shop", "creds", "cart"), key.Protected: "false"},
	}
}

func (w *world) read(t *testing.T) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "creds"}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// print writes a Secret as text, with what differs from run to run replaced by its length or kind.
func (w *world) print(s *corev1.Secret) string {
	var out strings.Builder
	list := func(title string, m map[string]string) {
		fmt.Fprintln(&out, title)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&out, "  %s: %s\n", k, m[k])
		}
	}
	annotations := maps.Clone(s.Annotations)
	if _, ok := annotations[key.AnnotationStores]; ok {
		last := parseRecord(annotations[key.AnnotationStores])
		last.digest = "(digest)"
		annotations[key.AnnotationStores] = last.String()
	}
	list("labels", s.Labels)
	list("annotations", annotations)
	list("finalizers", map[string]string{"all": strings.Join(s.Finalizers, ", ")})
	data := map[string]string{}
	for k, v := range s.Data {
		switch {
		case k == key.KafkaKeyStore || k == key.KafkaTrustStore:
			data[k] = "(store)"
		case string(v) == w.certs.key:
			data[k] = "(key)"
		case string(v) == w.certs.cert:
			data[k] = "(certificate)"
		default:
			data[k] = string(v)
		}
	}
	list("data", data)
	return out.String()
}

func TestContent(t *testing.T) {
	tests := map[string]func(w *world) *binding.Set{
		"kafka":      func(w *world) *binding.Set { return set(w.kafka()) },
		"opensearch": func(*world) *binding.Set { return set(openSearch()) },
		"valkey":     func(*world) *binding.Set { return set(valkey("my-cache", "cache"), valkey("1st", "bare")) },
		"everything": func(w *world) *binding.Set { return set(w.kafka(), openSearch(), valkey("cache", "cache")) },
	}
	for name, bindings := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, interceptor.Funcs{})
			if err := w.EnsureCreated(t.Context(), bindings(w)); err != nil {
				t.Fatal(err)
			}
			got := w.print(w.read(t))
			golden.Compare(t, filepath.Join("testdata", name+".golden"), got)
		})
	}
}

// again runs the resource on what the last run left.
func (w *world) again(t *testing.T, s *binding.Set) *corev1.Secret {
	t.Helper()
	s.Current = w.read(t)
	if err := w.EnsureCreated(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return w.read(t)
}

func TestUnchangedSecretIsNotWritten(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{})
	if err := w.EnsureCreated(t.Context(), set(w.kafka(), openSearch())); err != nil {
		t.Fatal(err)
	}
	before := w.read(t)
	w.clock.SetTime(start.Add(time.Hour))
	for range 3 {
		if after := w.again(t, set(w.kafka(), openSearch())); after.ResourceVersion != before.ResourceVersion {
			t.Fatalf("it was written again: %s", cmp.Diff(before, after))
		}
	}
}

func TestChangesAreWritten(t *testing.T) {
	tests := map[string]struct {
		edit                func(s *corev1.Secret)
		kafkaMoves, allMove bool // the time stamps
		storeStays          bool
	}{
		"it restores an address":                {edit: func(s *corev1.Secret) { s.Data[key.KafkaBrokers] = []byte("x") }, kafkaMoves: true, allMove: true, storeStays: true},
		"it restores a CA":                      {edit: func(s *corev1.Secret) { delete(s.Data, key.KafkaCA) }, kafkaMoves: true, allMove: true, storeStays: true},
		"it restores a password":                {edit: func(s *corev1.Secret) { s.Data[key.OpenSearchPassword] = nil }, allMove: true, storeStays: true},
		"it restores a store":                   {edit: func(s *corev1.Secret) { s.Data[key.KafkaKeyStore] = []byte("x") }, kafkaMoves: true, allMove: true},
		"it removes a key that is not its":      {edit: func(s *corev1.Secret) { s.Data["EXTRA"] = []byte("1") }, allMove: true, storeStays: true},
		"it restores a label":                   {edit: func(s *corev1.Secret) { delete(s.Labels, key.LabelApp) }, storeStays: true},
		"it restores a record":                  {edit: func(s *corev1.Secret) { s.Annotations[key.AnnotationKafkaUser] = "avnadmin" }, storeStays: true},
		"it restores its finalizer":             {edit: func(s *corev1.Secret) { s.Finalizers = []string{"foreign/one"} }, storeStays: true},
		"it takes over stores without a digest": {edit: func(s *corev1.Secret) { delete(s.Annotations, key.AnnotationStores) }, storeStays: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, interceptor.Funcs{})
			if err := w.EnsureCreated(t.Context(), set(w.kafka(), openSearch())); err != nil {
				t.Fatal(err)
			}
			want := w.read(t)
			edited := want.DeepCopy()
			edited.Labels["foreign"] = "label"
			edited.Annotations["foreign"] = "annotation"
			tt.edit(edited)
			if err := w.Update(t.Context(), edited); err != nil {
				t.Fatal(err)
			}
			w.clock.SetTime(start.Add(time.Hour))
			got := w.again(t, set(w.kafka(), openSearch()))
			later := []byte("2030-01-02T04:04:05Z")
			if moved := bytes.Equal(got.Data[key.KafkaSecretUpdated], later); moved != tt.kafkaMoves {
				t.Errorf("Kafka's time stamp moved: %t, want %t", moved, tt.kafkaMoves)
			}
			if moved := bytes.Equal(got.Data[key.SecretUpdated], later); moved != tt.allMove {
				t.Errorf("the time stamp moved: %t, want %t", moved, tt.allMove)
			}
			if stays := bytes.Equal(got.Data[key.KafkaKeyStore], want.Data[key.KafkaKeyStore]); stays != tt.storeStays {
				t.Errorf("the key store stayed: %t, want %t", stays, tt.storeStays)
			}
			for _, k := range []string{key.SecretUpdated, key.KafkaSecretUpdated, key.KafkaKeyStore, key.KafkaTrustStore} {
				got.Data[k] = want.Data[k]
			}
			if diff := cmp.Diff(want.Data, got.Data); diff != "" {
				t.Error("data (-want +got)\n", diff)
			}
			if got.Labels["foreign"] != "label" || got.Annotations["foreign"] != "annotation" || got.Labels[key.LabelApp] != "cart" ||
				got.Annotations[key.AnnotationKafkaUser] != "kafka-user" || !slices.Contains(got.Finalizers, "operatorkit.giantswarm.io/test") {
				t.Errorf("metadata: %+v", got.ObjectMeta)
			}
		})
	}
}

func TestWhatFailsKeepsItsKeys(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{})
	if err := w.EnsureCreated(t.Context(), set(w.kafka(), openSearch(), valkey("cache", "cache"))); err != nil {
		t.Fatal(err)
	}
	before := w.read(t)
	s := set(w.kafka(), openSearch(), valkey("cache", "cache"))
	s.Current = before.DeepCopy()
	boom := errors.New("boom")
	s.Bindings[0].Err, s.Bindings[2].Err = boom, boom
	s.Bindings[1].User.Password = "another"
	if err := w.EnsureCreated(t.Context(), s); !errors.Is(err, boom) {
		t.Errorf("got %v, want what failed", err)
	}
	got := w.read(t)
	for k, v := range before.Data {
		if k != key.OpenSearchPassword && k != key.SecretUpdated && !bytes.Equal(got.Data[k], v) {
			t.Errorf("%s changed", k)
		}
	}
	if string(got.Data[key.OpenSearchPassword]) != "another" {
		t.Error("what works was not written")
	}
	if !s.Bindings[1].Published || s.Bindings[0].Published {
		t.Errorf("published: %t, %t", s.Bindings[0].Published, s.Bindings[1].Published)
	}
}

func TestAServiceThatIsNoLongerAskedForLeavesItsRecord(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{})
	if err := w.EnsureCreated(t.Context(), set(openSearch(), valkey("cache", "cache"))); err != nil {
		t.Fatal(err)
	}
	s := set(openSearch())
	s.Retired = []*binding.Binding{valkey("cache", "cache")}
	got := w.again(t, s)
	if _, ok := got.Data["VALKEY_PASSWORD_CACHE"]; ok {
		t.Error("its keys are left")
	}
	if got.Annotations[key.ValkeyUser("cache")] != "cache-user" {
		t.Error("its record is gone while its user is not")
	}
	if got := w.again(t, set(openSearch())); got.Annotations[key.ValkeyUser("cache")] != "" || got.Annotations[key.AnnotationValkeyProject] != "" {
		t.Error("its record is left when its user is gone")
	}
}

func TestFailures(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "creds", errors.New("changed"))
	tests := map[string]struct {
		funcs  interceptor.Funcs
		edit   func(w *world, s *binding.Set)
		want   resource.Outcome
		reason string
	}{
		"it waits for a service without addresses": {
			edit: func(_ *world, s *binding.Set) { s.Bindings[0].Ref.Service = "empty" }, want: resource.Waiting, reason: binding.ReasonWaiting,
		},
		"it names a key that cannot be read": {
			edit: func(_ *world, s *binding.Set) { s.Bindings[0].User.Key = "garbage" }, want: resource.Failed, reason: binding.ReasonBadCredentials,
		},
		"it says that the API is down": {
			edit: func(w *world, _ *binding.Set) { w.services.err = errors.New("down") }, want: resource.Failed,
		},
		"it looks again at a Secret that appeared": {
			funcs: interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "secrets"}, "creds")
			}},
			want: resource.Waiting,
		},
		"it takes a conflict for what it is": {
			funcs: interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return conflict }},
			want:  resource.Waiting,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.funcs)
			s := set(w.kafka())
			if tt.edit != nil {
				tt.edit(w, s)
			}
			err := w.EnsureCreated(t.Context(), s)
			if got := resource.OutcomeOf(err); got != tt.want || binding.ReasonOf(err) != tt.reason {
				t.Errorf("got %s %q (%v), want %s %q", got, binding.ReasonOf(err), err, tt.want, tt.reason)
			}
			if strings.Contains(fmt.Sprint(err), "garbage") {
				t.Errorf("the error shows a key: %v", err)
			}
			if s.Bindings[0].Published {
				t.Error("it counts as published")
			}
		})
	}
}

func TestImmutableSecretIsLeftAloneUntilItHasToChange(t *testing.T) {
	w := newWorld(t, interceptor.Funcs{})
	if err := w.EnsureCreated(t.Context(), set(openSearch())); err != nil {
		t.Fatal(err)
	}
	s := w.read(t)
	yes := true
	s.Immutable = &yes
	if err := w.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.again(t, set(openSearch()))
	changed := set(openSearch())
	changed.Current, changed.Bindings[0].User.Password = w.read(t), "another"
	if err := w.EnsureCreated(t.Context(), changed); binding.ReasonOf(err) != binding.ReasonSecretImmutable || resource.OutcomeOf(err) != resource.Waiting {
		t.Errorf("got %v, want to wait for somebody to delete it", err)
	}
}
