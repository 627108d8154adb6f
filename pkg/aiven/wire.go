package aiven

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	goclient "github.com/aiven/aiven-go-client/v2"
)

// errIncomplete never leaves the package, nor does any other error of reading an answer: their texts may hold some of it.
var errIncomplete = errors.New("answer incomplete")

// decodeObject reads the object that is an answer, member by member, so that an answer of many megabytes is never
// held as a whole. "errors" in it are a refusal, whatever the status of the answer was.
func decodeObject(d *json.Decoder, member func(key string) (bool, error)) error {
	return object(d, func(key string) (bool, error) {
		if key != "errors" {
			return member(key)
		}
		var list []struct {
			apiError
			Status json.RawMessage `json:"status"`
		}
		if err := d.Decode(&list); err != nil || len(list) == 0 {
			return true, err
		}
		status, _ := strconv.Atoi(string(list[0].Status)) // 0 for what is no number: not understood
		return true, &refusal{status: status, code: list[0].Code, message: list[0].Message}
	})
}

// object reads an object. member reads the value of a key and returns true, or returns false to have it skipped.
func object(d *json.Decoder, member func(key string) (bool, error)) error {
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errors.Join(errIncomplete, err)
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		taken, err := member(key)
		if err == nil && !taken {
			var skip skipped
			err = d.Decode(&skip)
		}
		if err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// array reads an array, or null in its place. element reads one element.
func array(d *json.Decoder, element func() error) error {
	switch start, err := d.Token(); {
	case err != nil:
		return err
	case start == nil:
		return nil
	case start != json.Delim('['):
		return errIncomplete
	}
	for d.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// skipped is a value that nobody needs.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// decodeService reads what is needed of a service. The rest is skipped, as it holds the administrator's credentials,
// and values of types that aiven-go-client does not expect.
func decodeService(d *json.Decoder, s *Service) error {
	users := false
	field := func(key string) (bool, error) {
		switch key {
		case "service_type":
			return true, d.Decode(&s.Type)
		case "state":
			return true, d.Decode(&s.State)
		case "components":
			return true, array(d, func() error {
				var w wireComponent
				err := d.Decode(&w)
				s.Components = append(s.Components, w.component())
				return err
			})
		case "users":
			users = true
			return true, array(d, func() error {
				var w wireUser
				err := d.Decode(&w)
				s.AddUser(*w.user())
				return err
			})
		case "acl":
			return true, array(d, func() error {
				var w goclient.KafkaACL
				err := d.Decode(&w)
				s.AddKafkaACL(KafkaACL{w.ID, w.Username, w.Topic, w.Permission})
				return err
			})
		default:
			return false, nil
		}
	}
	err := decodeObject(d, func(key string) (bool, error) {
		if key != "service" {
			return false, nil
		}
		return true, object(d, field)
	})
	// A service that runs has a built-in user: one without a list of users is not to be taken for an empty one.
	if err == nil && (s.State == "" || s.Type == "" || s.Usable() && !users) {
		err = errIncomplete
	}
	return err
}

type wireComponent struct {
	goclient.ServiceComponents
	KafkaSSLCA string `json:"kafka_ssl_ca"`
}

func (w wireComponent) component() Component {
	return Component{
		Component: w.Component, Usage: w.Usage, Route: w.Route, Host: w.Host, Port: w.Port,
		SSL:                       w.Ssl == nil || *w.Ssl, // told only where it can be off
		KafkaAuthenticationMethod: w.KafkaAuthenticationMethod,
		KafkaSSLCA:                w.KafkaSSLCA,
	}
}

type wireUser struct {
	goclient.ServiceUser
	ExpiringNotAfter *time.Time `json:"expiring_cert_not_valid_after_time"`
	PasswordUpdated  *time.Time `json:"password_updated_time"`
}

func (w wireUser) user() *User {
	u := &User{
		Name: w.Username, Type: w.Type,
		AccessControl: AccessControl{
			Categories: w.AccessControl.ValkeyACLCategories,
			Commands:   w.AccessControl.ValkeyACLCommands,
			Keys:       w.AccessControl.ValkeyACLKeys,
			Channels:   w.AccessControl.ValkeyACLChannels,
		},
	}
	// From March 2027 on the API answers this text in the place of a secret that was not asked for, or may not be
	// seen by the token.
	known := func(secret string) string {
		if secret == "<redacted>" {
			u.Redacted = true
			return ""
		}
		return secret
	}
	u.Password, u.Certificate, u.Key = known(w.Password), known(w.AccessCert), known(w.AccessKey)
	if w.AccessCertNotValidAfterTime != nil {
		u.CertificateExpires = *w.AccessCertNotValidAfterTime
	}
	if w.PasswordUpdated != nil {
		u.PasswordUpdated = *w.PasswordUpdated
	}
	if w.ExpiringNotAfter != nil {
		u.ExpiringCertificateExpires = *w.ExpiringNotAfter
	}
	return u
}

// wireAccess returns the form in which access control is sent: always all four lists, as one that is left out may
// mean that the former one stays.
func wireAccess(a AccessControl) *goclient.AccessControl {
	list := func(l []string) []string { return append([]string{}, l...) }
	return &goclient.AccessControl{
		ValkeyACLCategories: list(a.Categories),
		ValkeyACLCommands:   list(a.Commands),
		ValkeyACLKeys:       list(a.Keys),
		ValkeyACLChannels:   list(a.Channels),
	}
}
