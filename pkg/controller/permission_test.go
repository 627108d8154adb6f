package controller

import (
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/giantswarm/microerror"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

// refused is an answer of the API server for want of a right.
func refused(resource, name, why string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New(why))
}

func TestMissingPermission(t *testing.T) {
	type answer struct {
		Permission
		OK   bool
		Text string
	}
	tests := map[string]struct {
		err  error
		want answer
	}{
		"reads a namespaced one": {
			refused("secrets", "s", `User "system:serviceaccount:a:b" cannot patch resource "secrets" in API group "" in the namespace "team"`),
			answer{Permission{"system:serviceaccount:a:b", "patch", "", "secrets", "team"}, true, "patch secrets in namespace team"},
		},
		"reads one of the whole cluster": {
			refused("deployments", "", `User "u" cannot list resource "deployments" in API group "apps" at the cluster scope`),
			answer{Permission{"u", "list", "apps", "deployments", ""}, true, "list deployments.apps in all namespaces"},
		},
		"reads one of a subresource, wrapped, with what the authorizer adds": {
			microerror.Mask(refused("services", "s", `User "u" cannot update resource "services/status" in API group "" in the namespace "a": RBAC: role "x" not found`)),
			answer{Permission{"u", "update", "", "services/status", "a"}, true, "update services/status in namespace a"},
		},
		"does not take what admission control forbids for one": {
			refused("pods", "p", `exceeded quota: compute, requested: pods=1`), answer{Text: "  in all namespaces"},
		},
		"does not take the words for the answer": {
			errors.New(`User "u" cannot list resource "pods" in API group "" at the cluster scope`), answer{Text: "  in all namespaces"},
		},
		"does not find one where there is no error": {nil, answer{Text: "  in all namespaces"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, ok := MissingPermission(tc.err)
			if diff := cmp.Diff(tc.want, answer{p, ok, p.String()}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMissingPermissionIsReported(t *testing.T) {
	b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Resources = []resource.Interface{b.step("a", func(context.Context, resource.Operation) error {
			return microerror.Mask(refused("secrets", "s", `User "u" cannot create resource "secrets" in API group "" in the namespace "ns"`))
		})}
	})
	for range 2 {
		_, err := b.pass(t.Context())
		if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "u is not allowed to create secrets in namespace ns: resource a: ") {
			t.Errorf("got %v", err)
		}
	}
	if n := b.metrics(t)["keysmith_controller_missing_permissions_total{test,secrets,create}"]; n != 2 {
		t.Errorf("counted %g", n)
	}
	if diff := cmp.Diff([]string{"Warning MissingPermission u is not allowed to create secrets in namespace ns"}, b.events()); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

func TestDescriptionIsInTheError(t *testing.T) {
	b := newBed(t, service(finalizers(theFinalizer)), func(b *bed, cfg *Config[*corev1.Service]) {
		cfg.Resources = []resource.Interface{b.step("a", func(context.Context, resource.Operation) error {
			return microerror.Mask(&microerror.Error{Kind: "quotaExceeded", Desc: "The project has no room left."})
		})}
	})
	if _, err := b.pass(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "quota exceeded: The project has no room left.") {
		t.Errorf("got %v", err)
	}
}

func TestWatchErrorHandler(t *testing.T) {
	tests := map[string]struct {
		err       error
		want      map[string]float64
		wantLines int
	}{
		"names a missing right": {
			refused("services", "", `User "u" cannot watch resource "services" in API group "" at the cluster scope`),
			map[string]float64{"keysmith_watch_errors_total{Service,forbidden}": 1}, 1,
		},
		"counts a version that is too old":  {apierrors.NewResourceExpired("old"), map[string]float64{"keysmith_watch_errors_total{Service,expired}": 1}, 0},
		"counts an API server that is away": {errors.New("connection refused"), map[string]float64{"keysmith_watch_errors_total{Service,failed}": 1}, 0},
		"counts an API server that closes the connection of a list": {&url.Error{Op: "Get", URL: "https://x", Err: io.EOF},
			map[string]float64{"keysmith_watch_errors_total{Service,failed}": 1}, 0},
		"does not count the end of each watch": {io.EOF, map[string]float64{}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil, nil)
			var lines []string
			r := toolscache.NewReflectorWithOptions(nil, &corev1.Service{}, nil, toolscache.ReflectorOptions{})
			b.controller.cfg.Metrics.WatchErrorHandler(logr.New(&sink{lines: &lines}))(t.Context(), r, tc.err)

			got := map[string]float64{}
			for name, value := range b.metrics(t) {
				if strings.HasPrefix(name, "keysmith_watch_errors_total") {
					got[name] = value
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if len(lines) != tc.wantLines || tc.wantLines > 0 && !strings.Contains(lines[0], "verb=watch resource=services") {
				t.Errorf("log: got %q", lines)
			}
		})
	}
}
