package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Reasons of events that tell what was done, beside those of conditions.
const (
	eventSecretCreated = "SecretCreated"
	eventSecretUpdated = "SecretUpdated"
	eventAccessChanged = "AccessChanged"
	eventUserDeleted   = "UserDeleted"
	eventDeleted       = "Deleted"
)

// tell sends events of what a pass has done for one set: to its Secret, to rights, to users that nobody asks for any more.
func (a *Application) tell(app *v1.AivenApplication, r resource.Result) {
	set, ok := r.Scope.(*binding.Set)
	if !ok {
		return
	}
	if r.Operation == resource.Delete {
		for _, b := range set.Bindings {
			if r.Err == nil {
				a.say(app, eventUserDeleted, "Delete", "User "+who(b)+" was deleted")
			}
		}
		return
	}
	for _, b := range set.Bindings {
		if len(b.Rights) > 0 && set.Current != nil { // those of a new user come with its Secret
			a.say(app, eventAccessChanged, "Update", "Rights of user "+who(b)+": "+strings.Join(b.Rights, ", "))
		}
	}
	switch {
	case set.Written == "":
	case set.Current == nil:
		a.say(app, eventSecretCreated, "Create", "Secret "+set.Secret+" was made for "+holders(set))
	default:
		a.say(app, eventSecretUpdated, "Update", "Secret "+set.Secret+" was brought up to date: "+set.Written)
	}
}

// farewell tells, once, what remains of an application that goes.
func (a *Application) farewell(app *v1.AivenApplication) {
	var secrets []string
	for _, r := range app.Status.Bindings {
		if r.State == StateRetained && !slices.Contains(secrets, r.SecretName) {
			secrets = append(secrets, r.SecretName)
		}
	}
	if len(secrets) > 0 {
		a.say(app, eventDeleted, "Delete", "Secrets stay, with their users, until no workload refers to them: "+strings.Join(secrets, ", "))
	}
}

func (a *Application) say(app *v1.AivenApplication, reason, action, text string) {
	a.events.Eventf(app, nil, corev1.EventTypeNormal, reason, action, "%s", shorten(text))
}

// who says which user a binding is about, and where.
func who(b *binding.Binding) string {
	return fmt.Sprintf("%s of %s/%s", b.Username, b.Ref.Project, cmp.Or(b.Ref.Service, string(b.Kind)))
}

// holders are the users whose credentials a Secret holds.
func holders(set *binding.Set) string {
	var names []string
	for _, b := range set.Bindings {
		if b.Published {
			names = append(names, "user "+who(b))
		}
	}
	return strings.Join(names, ", ")
}
