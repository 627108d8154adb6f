package janitor

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// times are moments around the one at which the tests begin, told in any zone.
var times = rapid.Custom(func(t *rapid.T) time.Time {
	zone := time.FixedZone("", 60*rapid.IntRange(-14*60, 14*60).Draw(t, "minutes east"))
	return start.Add(time.Duration(rapid.Int64Range(-1<<20, 1<<20).Draw(t, "seconds")) * time.Second).In(zone)
})

// What is in use stays; what is protected stays, for good or until its time; and what may go today may go at any later time.
func TestNoVerdictLosesASecretThatIsNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inUse, protected := rapid.Bool().Draw(t, "in use"), rapid.Bool().Draw(t, "protected")
		expires := rapid.Ptr(times, true).Draw(t, "expires")
		now := times.Draw(t, "now")
		got := judge(inUse, protected, expires, now)
		if stays := inUse || protected && (expires == nil || now.Before(*expires)); stays == (got == Unused) {
			t.Errorf("the verdict is %s", got)
		}
		if elsewhere := judge(inUse, protected, expires, now.UTC()); elsewhere != got {
			t.Errorf("the verdict is %s, in another zone %s", got, elsewhere)
		}
		later := now.Add(time.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "later")))
		if then := judge(inUse, protected, expires, later); then != got && (got != NotExpired || then != Unused) {
			t.Errorf("the verdict is %s, later %s", got, then)
		}
	})
}

// A time limit is read as the moment that was written, whatever zone it is told in.
func TestAnyZoneIsReadAsTheSameMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := times.Draw(t, "limit")
		protected, got, err := protection(managed("creds", map[string]string{
			key.Protected: "true", key.AnnotationTimeLimit: "true", key.AnnotationExpiresAt: want.Format(time.RFC3339),
		}))
		if err != nil || !protected || got == nil || !got.Equal(want) {
			t.Errorf("got %t, %v, %v; want %v", protected, got, err, want)
		}
	})
}

// However often a round comes, and whatever the clock and the workloads do in between: a Secret goes only after it has been seen
// unused for the grace period, without a round in between that saw it used.
func TestNothingGoesBeforeItsGrace(t *testing.T) {
	r := newRound(t, 0, interceptor.Funcs{})
	clean := func() {
		for _, kind := range []client.Object{&corev1.Secret{}, &corev1.Pod{}} {
			if err := r.DeleteAllOf(t.Context(), kind, client.InNamespace("shop")); err != nil {
				t.Fatal(err)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		clean()
		if err := r.Create(t.Context(), managed("creds", nil)); err != nil {
			rt.Fatal(err)
		}
		clear(r.unused)
		r.settings.Grace = time.Duration(rapid.IntRange(0, 5).Draw(rt, "grace")) * time.Minute
		used := false
		var since *time.Time // seen unused
		for range rapid.IntRange(1, 8).Draw(rt, "rounds") {
			if rapid.Bool().Draw(rt, "changes") {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod"}, Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "creds"}}}}
				var err error
				if used = !used; used {
					err = r.Create(t.Context(), pod)
				} else {
					err = r.Delete(t.Context(), pod)
				}
				if err != nil {
					rt.Fatal(err)
				}
			}
			now := r.clock.Now().Add(time.Duration(rapid.IntRange(-30, 120).Draw(rt, "seconds")) * time.Second)
			r.clock.SetTime(now)
			if err := r.EnsureCreated(t.Context(), nil); resource.OutcomeOf(err) == resource.Failed {
				rt.Fatal(err)
			}
			switch {
			case used:
				since = nil
			case since == nil:
				since = &now
			}
			want := used || now.Sub(*since) < r.settings.Grace
			if got := len(r.left(t)) == 1; got != want {
				rt.Fatalf("it is there: %t, want %t", got, want)
			}
			if !want {
				return
			}
		}
	})
}

// pods are templates that refer to some Secrets, in any of the ways there are.
var pods = rapid.Custom(func(t *rapid.T) corev1.PodSpec {
	name := rapid.SampledFrom([]string{"", "a", "b", "c"})
	from := func() []corev1.EnvFromSource {
		return []corev1.EnvFromSource{{}, {SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name.Draw(t, "envFrom")}}}}
	}
	env := func() []corev1.EnvVar {
		ref := &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name.Draw(t, "env")}}
		return []corev1.EnvVar{{Name: "X"}, {ValueFrom: &corev1.EnvVarSource{}}, {ValueFrom: &corev1.EnvVarSource{SecretKeyRef: ref}}}
	}
	return corev1.PodSpec{
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name.Draw(t, "volume")}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{}, {Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name.Draw(t, "projected")}}},
			}}}},
		},
		InitContainers:      []corev1.Container{{EnvFrom: from()}, {Env: env()}},
		Containers:          []corev1.Container{{EnvFrom: from(), Env: env()}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{EnvFrom: from(), Env: env()}}},
		ImagePullSecrets:    []corev1.LocalObjectReference{{Name: name.Draw(t, "pull")}},
	}
})

// What the cache keeps of a workload refers to the same Secrets as all of it, and stripping it once more changes nothing.
func TestStrippingLosesNoReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := pods.Draw(t, "pod")
		for i, whole := range workloads(spec) {
			want := Index(whole)
			if len(want) > 3 || slices.Contains(want, "") {
				t.Errorf("got %q", want)
			}
			for range 2 {
				slim, err := Strip(whole)
				if err != nil {
					t.Fatal(err)
				}
				whole = slim.(client.Object)
				if diff := cmp.Diff(want, Index(whole)); diff != "" {
					t.Errorf("%s (-whole +stripped)\n%s", kinds[i].name, diff)
				}
			}
		}
	})
}

// A Secret that says it is protected is, whatever stands in its time limit, and what cannot be read protects.
func FuzzProtection(f *testing.F) {
	for _, limit := range []string{"2030-01-31T12:00:00Z", "2030-01-31T12:00:00.5+01:00", "2030-02-30T12:00:00Z", "", "tomorrow", "9999999999-01-01T00:00:00Z", "\xff\x00"} {
		f.Add("true", "true", limit)
	}
	f.Fuzz(func(t *testing.T, protected, limited, limit string) {
		s := managed("creds", map[string]string{key.Protected: protected, key.AnnotationTimeLimit: limited, key.AnnotationExpiresAt: limit})
		is, expires, err := protection(s)
		if is != (protected == "true") || expires != nil && (!is || limited != "true") || err != nil && (!is || expires != nil) {
			t.Errorf("got %t, %v, %v", is, expires, err)
		}
		if is && expires == nil && judge(false, is, expires, start.AddDate(1000, 0, 0)) != Protected {
			t.Error("it goes one day though nothing says when")
		}
	})
}
