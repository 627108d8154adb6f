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

// tell sends events of what a pass has done: to Secrets, to rights, to users that nobody asks for any more. All of one kind go in one, as an
// application with several Secrets would otherwise cost the API server more events than anything else.
func (a *Application) tell(app *v1.AivenApplication, results []resource.Result) {
	var created, updated, access, deleted []string
	for _, r := range results {
		set, ok := r.Scope.(*binding.Set)
		if !ok {
			continue
		}
		if r.Operation == resource.Delete {
			for _, b := range set.Bindings {
				if r.Err == nil {
					deleted = append(deleted, "User "+who(b)+" was deleted")
				}
			}
			continue
		}
		for _, b := range set.Bindings {
			if len(b.Rights) > 0 && set.Current != nil { // those of a new user come with its Secret
				access = append(access, "Rights of user "+who(b)+": "+strings.Join(b.Rights, ", "))
			}
		}
		switch {
		case set.Written == "":
		case set.Current == nil:
			created = append(created, "Secret "+set.Secret+" was made for "+holders(set))
		default:
			updated = append(updated, "Secret "+set.Secret+" was brought up to date: "+set.Written)
		}
	}
	a.say(app, eventAccessChanged, "Update", access...)
	a.say(app, eventSecretCreated, "Create", created...)
	a.say(app, eventSecretUpdated, "Update", updated...)
	a.say(app, eventUserDeleted, "Delete", deleted...)
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

// say sends an event, unless there is nothing to say.
func (a *Application) say(app *v1.AivenApplication, reason, action string, texts ...string) {
	if len(texts) > 0 {
		a.events.Eventf(app, nil, corev1.EventTypeNormal, reason, action, "%s", shorten(strings.Join(texts, "; ")))
	}
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
