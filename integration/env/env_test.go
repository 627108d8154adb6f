package env

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorder is a test that only notes that it failed or was skipped.
type recorder struct {
	testing.TB
	ctx     context.Context
	failure string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	panic(r)
}

func (r *recorder) Skipf(format string, args ...any) { r.Fatalf(format, args...) }

// failure returns the message that f fails its test with or skips it, or nothing.
func failure(t *testing.T, f func(t testing.TB)) (message string) {
	t.Helper()
	r := &recorder{TB: t, ctx: t.Context()}
	defer func() {
		if p := recover(); p != nil && p != r {
			panic(p)
		}
		message = r.failure
	}()
	f(r)
	return ""
}

func TestEventually(t *testing.T) {
	calls := 0
	for name, tc := range map[string]struct {
		deadline time.Duration
		check    func(ctx context.Context) error
		want     string
	}{
		"it returns when the check is nil": {
			deadline: time.Minute,
			check: func(context.Context) error {
				if calls++; calls < 3 {
					return errors.New("not yet")
				}
				return nil
			},
		},
		"it shows the last error at the deadline": {
			deadline: time.Millisecond,
			check:    func(context.Context) error { return errors.New("no Secret") },
			want:     "not so after 1ms: no Secret",
		},
		"it does not show that the check ran into the deadline": {
			deadline: 250 * time.Millisecond,
			check: func() func(ctx context.Context) error {
				first := true
				return func(ctx context.Context) error {
					if first {
						first = false
						return errors.New("no Secret")
					}
					<-ctx.Done()
					return ctx.Err()
				}
			}(),
			want: "not so after 250ms: no Secret",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := failure(t, func(t testing.TB) { Eventually(t, tc.deadline, tc.check) })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("failure (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	t.Run("it fails with both ways to get a cluster", func(t *testing.T) {
		t.Setenv(Kubeconfig, "")
		got := failure(t, func(t testing.TB) { Config(t) })
		for _, want := range []string{
			"E2E_KUBECONFIG is not set",
			"go run ./integration/controlplane/cmd/controlplane -- go test",
			"E2E_KUBECONFIG=$HOME/.kube/config go test",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("failure is %q, want %q in it", got, want)
			}
		}
	})
}

func TestPrefix(t *testing.T) {
	for name, tc := range map[string]struct{ test, want string }{
		"it drops what all tests have in common": {test: "TestJanitor", want: "janitor-"},
		"it takes the name of the subtest":       {test: "TestSecret/it_revokes_rights", want: "it-revokes-rights-"},
		"it cuts a long name":                    {test: "TestX/it_keeps_a_Secret_that_a_Deployment_uses", want: "it-keeps-a-secret-that-a-d-"},
		"it ends in one dash":                    {test: "TestX/it_keeps_a_Secret_that_is__used", want: "it-keeps-a-secret-that-is-"},
		"it has a name for no name":              {test: "Test/###", want: "test-"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, prefix(tc.test)); diff != "" {
				t.Errorf("prefix (-want +got):\n%s", diff)
			}
		})
	}
}
