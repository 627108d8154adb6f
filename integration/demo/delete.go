package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v2 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v2"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// stopTime is how long the operator may take to end.
const stopTime = 30 * time.Second

func (d *demo) deleteApplication(ctx context.Context) error {
	if err := d.stage.Create(ctx, deployment(d.namespace)); err != nil {
		return fmt.Errorf("create the Deployment: %w", err)
	}
	if err := d.await(ctx, "Deployment webshop has a Pod with the variables of "+openSearchSecret, d.hasPod); err != nil {
		return err
	}
	before, err := d.secret(ctx, openSearchSecret)
	if err != nil {
		return err
	}
	app := &v2.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: application}}
	if err := d.stage.Delete(ctx, app); err != nil {
		return fmt.Errorf("delete application %s: %w", application, err)
	}
	for _, gone := range []struct {
		what, name string
		obj        client.Object
	}{
		{"application", application, app},
		{"Secret", kafkaSecret, &corev1.Secret{}},
		{"Secret", valkeySecret, &corev1.Secret{}},
	} {
		if err := d.gone(ctx, gone.what, gone.name, gone.obj); err != nil {
			return err
		}
	}
	err = d.await(ctx, "the janitor has judged what is left: one Secret, in use", d.judged)
	if err != nil {
		return err
	}
	err = cmp.Or(expectNoUser(d.kafka), expectNoUser(d.sessions), expectNoUser(d.cache))
	if err != nil {
		return err
	}
	d.checked("the users of the Secrets that are gone are gone from Aiven")
	after, err := d.secret(ctx, openSearchSecret)
	if err != nil {
		return err
	}
	err = cmp.Or(expect("UID", before.UID, after.UID), difference(before.Data, after.Data))
	if err != nil {
		return err
	}
	d.checked("Secret %s is still there, as it was: the Deployment uses it", openSearchSecret)
	return d.canLogIn(d.openSearch, after, key.OpenSearchUsername, key.OpenSearchPassword)
}

// deployment uses a Secret. Whether its Pod ever runs does not matter.
func deployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app": application}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: application},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64),
					Containers: []corev1.Container{{
						Name:  "main",
						Image: "registry.k8s.io/pause:3.10",
						EnvFrom: []corev1.EnvFromSource{{
							SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: openSearchSecret}},
						}},
					}},
				},
			},
		},
	}
}

func (d *demo) hasPod(ctx context.Context) error {
	var pods corev1.PodList
	if err := d.stage.List(ctx, &pods, client.InNamespace(d.namespace), client.MatchingLabels{"app": application}); err != nil {
		return err
	}
	return expect("number of Pods", 1, len(pods.Items))
}

// gone waits until an object is gone.
func (d *demo) gone(ctx context.Context, what, name string, obj client.Object) error {
	return d.await(ctx, what+" "+name+" is gone", func(ctx context.Context) error {
		err := d.stage.Get(ctx, d.at(name), obj)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case obj.GetDeletionTimestamp() == nil:
			return fmt.Errorf("expected no %s %s, found it untouched", what, name)
		}
		return fmt.Errorf("expected no %s %s, found it being deleted", what, name)
	})
}

// judged is nil once a round of the janitor has seen just one Secret, which it found to be in use.
func (d *demo) judged(ctx context.Context) error {
	const managed = "aivenator_secrets_managed"
	all, err := d.operator.Metric(ctx, managed)
	if err != nil {
		return err
	}
	used, err := d.operator.Metric(ctx, managed+`{state="in_use"}`)
	if err != nil {
		return err
	}
	return cmp.Or(expect("Secrets that it keeps an eye on", 1, all), expect("Secrets in use", 1, used))
}

func expectNoUser(s *aivensim.Service) error {
	return expect("users of "+s.Name(), []string{}, ours(s))
}

func (d *demo) deleteDeployment(ctx context.Context) error {
	err := d.stage.Delete(ctx, deployment(d.namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		return fmt.Errorf("delete the Deployment: %w", err)
	}
	if err := d.gone(ctx, "Secret", openSearchSecret, &corev1.Secret{}); err != nil {
		return err
	}
	if err := expectNoUser(d.openSearch); err != nil {
		return err
	}
	d.checked("its user is gone from Aiven")
	return nil
}

func (d *demo) nothingLeft(context.Context) error {
	for _, p := range d.aiven.Projects() {
		for _, s := range p.Services() {
			if err := expectNoUser(s); err != nil {
				return err
			}
		}
	}
	d.checked("Aiven holds no user of ours")
	for _, e := range d.kafka.KafkaACLs() {
		if err := expect("owner of a topic right", "avnadmin", e.Username); err != nil {
			return err
		}
	}
	if err := expect("rules of "+d.openSearch.Name(), 0, len(d.openSearch.OpenSearchACLs().ACLs)); err != nil {
		return err
	}
	d.checked("nor a right")

	d.cancel(nil) // from here on the operator may end
	status, err := d.operator.Stop(stopTime)
	if err != nil {
		return err
	}
	if err := expect("exit status of the operator", 0, status); err != nil {
		return err
	}
	d.checked("the operator stops when it is asked to")
	log := []byte(d.operator.Log())
	for _, secret := range d.secrets {
		if bytes.Contains(log, secret) {
			return errors.New("log of the operator: expected no password and no key, found one")
		}
	}
	d.checked("its log holds none of the %d passwords and keys that were in the Secrets", len(d.secrets))
	return nil
}
