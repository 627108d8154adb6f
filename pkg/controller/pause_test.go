package controller_test

import (
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/pkg/controller/controllertest"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

const pauseKey = "operatorkit.giantswarm.io/paused"

// pausing is a suite with an annotation of our own and a condition.
var pausing = suite(func(_ *bed, cfg *config) {
	cfg.Pause = map[string]string{"example.com/state": "frozen"}
	cfg.Report = func(*corev1.Service, []resource.Result) {}
	cfg.Paused = func(s *corev1.Service, paused bool) {
		s.Status.Conditions = []metav1.Condition{{Type: "Paused", Reason: strconv.FormatBool(paused)}}
	}
})

func TestPause(t *testing.T) {
	with := func(key, value string, w want) controllertest.Case[*corev1.Service] {
		return controllertest.Case[*corev1.Service]{Object: service(annotated(key, value)), Passes: 2, Want: w}
	}
	paused := want{Finalizers: []string{}, Status: []string{"Paused true"}, Journal: []string{patchStatus}}
	runs := want{Status: []string{"Paused false"}, Journal: []string{patch, "create a", patchStatus, "create a"}}
	ignores := func(key, value string) want {
		w := runs
		w.Events = []string{"Warning PauseIgnored annotation " + key + " does not pause: its value is not " + value}
		return w
	}
	pausing.Run(t, tests{
		"is not paused by another annotation":                 with("foo", "", runs),
		"is not paused by false":                              with(pauseKey, "false", runs),
		"is not paused by another case, and says so once":     with(pauseKey, "True", ignores(pauseKey, "true")),
		"is not paused by an empty value, and says so once":   with(pauseKey, "", ignores(pauseKey, "true")),
		"is paused by the exact value":                        with(pauseKey, "true", paused),
		"is paused by Cluster API's annotation":               with("cluster.x-k8s.io/paused", "true", paused),
		"is paused by an annotation of the configuration":     with("example.com/state", "frozen", paused),
		"is not paused by another value of that, and says so": with("example.com/state", "true", ignores("example.com/state", "frozen")),
	})
}

func TestPausedDeletion(t *testing.T) {
	held := func(n float64) func(*bed) error {
		return func(b *bed) error {
			if got := b.Metric(`keysmith_controller_paused_deletions{controller="test"}`); got != n {
				return fmt.Errorf("paused deletions: got %g, want %g", got, n)
			}
			return nil
		}
	}
	said := []string{"Warning DeletionPaused deletion waits for pause: remove annotation " + pauseKey + " to let it go on"}
	pausing.Run(t, tests{
		"is held, and says so once": {
			Object: service(annotated(pauseKey, "true")), Deleted: true,
			Meanwhile: []func(*bed) error{held(1), held(1)},
			Want:      want{Status: []string{"Paused true"}, Events: said, Journal: []string{patchStatus}},
		},
		"goes on afterwards": {
			Object: service(annotated(pauseKey, "true")), Deleted: true,
			Meanwhile: []func(*bed) error{patched(`{"metadata":{"annotations":null}}`), held(0)},
			Want:      want{Gone: true, Events: said},
		},
	})
}
