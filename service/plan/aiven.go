package plan

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/service/controller"
)

// Reader is the part of the Aiven API that only reads.
type Reader interface {
	Service(ctx context.Context, ref aiven.Ref) (*aiven.Service, error)
	User(ctx context.Context, ref aiven.Ref, name string) (*aiven.User, error)
	CA(ctx context.Context, project string) (string, error)
	Invalidate(ref aiven.Ref)
}

// services reads Aiven and notes what would be changed. It embeds what reads and nothing else, so that a change that the slice learns to make does
// not compile before it is noted here.
type services struct {
	Reader
	*record
}

var _ controller.Services = (*services)(nil)

func (s *services) note(ctx context.Context, action Action, name string, ref aiven.Ref, changes ...string) {
	s.add(ctx, id{}, Step{Action: action, Kind: kindUser, Name: name, Service: ref.String(), Changes: changes})
}

// CreateUser notes a new user. It answers with credentials that open nothing, for the steps that follow.
func (s *services) CreateUser(ctx context.Context, ref aiven.Ref, name string, access *aiven.AccessControl) (*aiven.User, error) {
	standIn, err := credentials()
	if err != nil {
		return nil, fmt.Errorf("create user %s on %s: %w", name, ref, err)
	}
	s.note(ctx, Create, name, ref)
	u := standIn
	u.Name = name
	if access != nil {
		u.AccessControl = *access
	}
	return &u, nil
}

// DeleteUser notes that a user goes, if it is there.
func (s *services) DeleteUser(ctx context.Context, ref aiven.Ref, name string) error {
	service, err := s.Service(ctx, ref)
	if err != nil {
		return err
	}
	if _, ok := service.User(name); !ok {
		return fmt.Errorf("delete user %s on %s: %w", name, ref, aiven.ErrNotFound)
	}
	s.note(ctx, Delete, name, ref)
	return nil
}

// AnnounceGrant does nothing: GrantOpenSearch is not waited for.
func (s *services) AnnounceGrant(aiven.Ref, string) {}

// SetAccessControl notes other rights of a Valkey user.
func (s *services) SetAccessControl(ctx context.Context, ref aiven.Ref, name string, _ aiven.AccessControl) error {
	s.note(ctx, Update, name, ref, "rights")
	return nil
}

// AcknowledgeRenewal notes that Aiven is told of a renewed certificate that the Secret holds.
func (s *services) AcknowledgeRenewal(ctx context.Context, ref aiven.Ref, name string) error {
	s.note(ctx, Update, name, ref, "acknowledge the renewed certificate")
	return nil
}

// AddKafkaACL notes a right that is granted.
func (s *services) AddKafkaACL(ctx context.Context, ref aiven.Ref, entry aiven.KafkaACL) error {
	s.note(ctx, Update, entry.Username, ref, "grant "+entry.Permission+" on topic "+entry.Topic)
	return nil
}

// DeleteKafkaACL notes a right that is revoked.
func (s *services) DeleteKafkaACL(ctx context.Context, ref aiven.Ref, entry aiven.KafkaACL) error {
	s.note(ctx, Update, entry.Username, ref, "revoke "+entry.Permission+" on topic "+entry.Topic)
	return nil
}

// GrantOpenSearch notes other rights of an OpenSearch user, and that access control is switched on where it is off: every user of the
// service will notice that.
func (s *services) GrantOpenSearch(ctx context.Context, ref aiven.Ref, username string, rules []aiven.OpenSearchRule) error {
	service, err := s.Service(ctx, ref)
	if err != nil {
		return err
	}
	var changes []string
	for _, rule := range rules {
		changes = append(changes, "grant "+rule.Permission+" on index "+rule.Index)
	}
	if acl := service.OpenSearchACL; acl != nil && !acl.Enabled {
		changes = append(changes, "switch access control of the service on")
	}
	s.note(ctx, Update, username, ref, changes...)
	return nil
}

// RevokeOpenSearch notes that the rights of an OpenSearch user go, if it has any.
func (s *services) RevokeOpenSearch(ctx context.Context, ref aiven.Ref, username string) error {
	service, err := s.Service(ctx, ref)
	if err != nil {
		return err
	}
	if acl := service.OpenSearchACL; acl != nil && len(acl.Rules[username]) > 0 {
		s.note(ctx, Update, username, ref, "revoke all rights")
	}
	return nil
}

// credentials are made once, of no use to anybody, and never shown.
var credentials = sync.OnceValues(func() (aiven.User, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return aiven.User{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "plan"},
		NotBefore: time.Now(), NotAfter: time.Now().Add(24 * time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return aiven.User{}, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return aiven.User{}, err
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return aiven.User{Password: "plan", Certificate: block("CERTIFICATE", certificate), Key: block("PRIVATE KEY", pkcs8)}, nil
})
