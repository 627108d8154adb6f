package renewal

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// EnsureCreated acknowledges the renewals of those certificates that this pass found or put in the Secret. What goes wrong is tried again, and makes no
// application less ready: its Secret holds the new certificate, and the old one works to its end, acknowledged or not.
func (r *Resource) EnsureCreated(ctx context.Context, set *binding.Set) error {
	var errs []error
	for _, b := range set.Bindings {
		if b.Kind != binding.Kafka || !b.Published || b.User.ExpiringCertificateExpires.IsZero() {
			continue
		}
		if err := r.users.AcknowledgeRenewal(ctx, b.Ref, b.Username); err != nil {
			errs = append(errs, binding.Aside(err))
			continue
		}
		log.FromContext(ctx).Info("renewed certificate acknowledged", "user", b.Username, "service", b.Ref.String())
	}
	if len(errs) == 0 {
		return nil
	}
	return resource.Partial(errors.Join(append(errs, set.Err())...)) // a later error replaces those of the steps before
}
