package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v2"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func (d *demo) lower(ctx context.Context) error {
	users := ours(d.openSearch)
	if err := expect("number of users of "+d.openSearch.Name(), 1, len(users)); err != nil {
		return err
	}
	user := users[0]
	d.say("rules of %s before: %s", user, rights(d.openSearch, user))
	app := &v2.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: application}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"openSearch":{"access":"read"}}}`))
	if err := d.stage.Patch(ctx, app, patch); err != nil {
		return fmt.Errorf("change application %s: %w", application, err)
	}
	err := d.await(ctx, "its rules are those of read", func(context.Context) error {
		return expect("rules", "_*: read, *: read", rights(d.openSearch, user))
	})
	if err != nil {
		return err
	}
	d.say("rules of %s now: %s", user, rights(d.openSearch, user))
	if err := d.ready(ctx); err != nil {
		return err
	}
	s, err := d.secret(ctx, openSearchSecret)
	if err != nil {
		return err
	}
	err = cmp.Or(
		expect("users of "+d.openSearch.Name(), users, ours(d.openSearch)),
		expect("number of entries in the ACL", 1, len(d.openSearch.OpenSearchACLs().ACLs)),
	)
	if err != nil {
		return err
	}
	d.checked("the old rules are gone, and the user is the same as before")
	return d.canLogIn(d.openSearch, s, key.OpenSearchUsername, key.OpenSearchPassword)
}

func (d *demo) edit(ctx context.Context) error {
	before, err := d.secret(ctx, openSearchSecret)
	if err != nil {
		return err
	}
	edited := before.DeepCopy()
	edited.Data[key.OpenSearchPassword] = []byte("guess")
	edited.Data["MY_OWN"] = []byte("value")
	delete(edited.Data, key.OpenSearchURI)
	delete(edited.Labels, key.LabelTeam)
	if err := d.stage.Update(ctx, edited); err != nil {
		return fmt.Errorf("edit Secret %s: %w", openSearchSecret, err)
	}
	d.say("%s has got another %s, a key MY_OWN,", openSearchSecret, key.OpenSearchPassword)
	d.say("and has lost %s and its label %q.", key.OpenSearchURI, key.LabelTeam)
	fmt.Fprintln(d.out)
	var after *corev1.Secret
	err = d.await(ctx, "the Secret is as it was", func(ctx context.Context) error {
		if after, err = d.secret(ctx, openSearchSecret); err != nil {
			return err
		}
		return cmp.Or(expect("UID", before.UID, after.UID), difference(before.Data, after.Data), expect("labels", before.Labels, after.Labels))
	})
	if err != nil {
		return err
	}
	d.checked("every value is restored, and %s tells when", key.SecretUpdated)
	return d.canLogIn(d.openSearch, after, key.OpenSearchUsername, key.OpenSearchPassword)
}

// difference names a key in which the content of two Secrets differs, without any value. The time of the last change may differ.
func difference(want, got map[string][]byte) error {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[k]; !ok {
			return fmt.Errorf("content of the Secret: expected key %s, found none", k)
		}
		if k != key.SecretUpdated && !bytes.Equal(want[k], got[k]) {
			return fmt.Errorf("content of the Secret: expected the former value of key %s, found another", k)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			return fmt.Errorf("content of the Secret: expected no key %s, found one", k)
		}
	}
	return nil
}
