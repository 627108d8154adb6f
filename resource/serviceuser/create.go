package serviceuser

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// ErrTaken says that a stranger took the name between the moment it was found free and the moment it was to be used.
var ErrTaken = errors.New("the user name is taken")

// credentialsWait is how long a user that has no credentials yet is left alone. Aiven makes them within seconds; waiting twice
// that long is what its own operator does.
const credentialsWait = 10 * time.Second

// EnsureCreated makes the users exist and hands their credentials on.
func (r *Resource) EnsureCreated(ctx context.Context, set *binding.Set) error {
	return set.Each(ctx, Name, func(ctx context.Context, b *binding.Binding) error {
		return Ensure(ctx, r.users, b, nil)
	}, binding.Kafka, binding.OpenSearch)
}

// Ensure makes the user of a binding exist, and fills it in with its credentials. The name has been recorded before. A create call
// is never repeated blindly: once its outcome is open, the user of that name is ours if it exists.
func Ensure(ctx context.Context, users Users, b *binding.Binding, access *aiven.AccessControl) error {
	service, err := users.Service(ctx, b.Ref)
	if err != nil {
		return err
	}
	user, found := service.User(b.Username)
	switch {
	case b.IsOutgoing():
		if found {
			b.User = &user
		}
		return nil // it is not made again
	case found && !b.Resumed:
		return taken(b)
	case found && complete(b.Kind, &user):
		b.User = &user
		return nil
	case b.Resumed:
		current, err := users.User(ctx, b.Ref, b.Username)
		if err == nil {
			return adopt(b, current)
		}
		if !errors.Is(err, aiven.ErrNotFound) {
			return err
		}
	}
	return create(ctx, users, b, access)
}

func create(ctx context.Context, users Users, b *binding.Binding, access *aiven.AccessControl) error {
	user, err := users.CreateUser(ctx, b.Ref, b.Username, access)
	switch {
	case err == nil:
		log.FromContext(ctx).Info("user created", "user", b.Username, "service", b.Ref.String())
		b.Resumed = true
		return adopt(b, user)
	case errors.Is(err, aiven.ErrExists) && !b.Resumed:
		return taken(b)
	case errors.Is(err, aiven.ErrExists):
		// Made by an earlier attempt; reads lag behind.
		return waiting("user %s of %s exists, but cannot be read yet", b.Username, b.Ref.Service)
	case errors.Is(err, aiven.ErrOutcomeUnknown):
		b.Resumed = true
	}
	return err
}

func adopt(b *binding.Binding, user *aiven.User) error {
	if user.Redacted {
		return resource.RequeueAfter(credentialsWait, "read the credentials of user %s of %s: the token lacks the permission service:secrets:read: %w",
			b.Username, b.Ref.Service, aiven.ErrUnauthorized)
	}
	if !complete(b.Kind, user) {
		return waiting("user %s of %s has no credentials yet", b.Username, b.Ref.Service)
	}
	b.User = user
	return nil
}

// complete tells whether all credentials are there; an empty one is "not known yet", never a value.
func complete(kind binding.Kind, u *aiven.User) bool {
	return u.Password != "" && (kind != binding.Kafka || u.Certificate != "" && u.Key != "")
}

func taken(b *binding.Binding) error {
	return binding.Waiting(binding.ReasonNameTaken, time.Second, "find a name for a user of %s: %w: %s", b.Ref.Service, ErrTaken, b.Username)
}

func waiting(format string, args ...any) error {
	return binding.Waiting(binding.ReasonCredentials, credentialsWait, format, args...)
}
