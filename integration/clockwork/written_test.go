package clockwork

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keysmith-io/keysmith/service"
)

func secret(uid types.UID, version string, end bool) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "creds", UID: uid, ResourceVersion: version}}
	if end {
		s.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	return s
}

func TestWrittenIsOpenUntilTheCacheAndItsHandlersHaveIt(t *testing.T) {
	held := secret("1", "7", true)
	held.Finalizers = []string{"example.com/held"}
	for name, tc := range map[string]struct {
		wrote   *corev1.Secret
		deleted bool
		cached  *corev1.Secret // nil: none
		behind  bool           // the handler has another version
		want    bool
	}{
		"it waits for what was made":                             {wrote: secret("1", "7", false)},
		"it waits for a newer version":                           {wrote: secret("1", "7", false), cached: secret("1", "6", false)},
		"it waits for the handler":                               {wrote: secret("1", "7", false), cached: secret("1", "7", false), behind: true},
		"it has what was written":                                {wrote: secret("1", "7", false), cached: secret("1", "7", false), want: true},
		"it has what somebody wrote after that":                  {wrote: secret("1", "7", false), cached: secret("1", "10", false), want: true},
		"it waits for a deletion":                                {wrote: secret("1", "7", false), deleted: true, cached: secret("1", "7", false)},
		"it has a deletion that a finalizer holds":               {wrote: secret("1", "7", false), deleted: true, cached: secret("1", "8", true), want: true},
		"it has a deletion":                                      {wrote: secret("1", "7", false), deleted: true, want: true},
		"it waits for the end after the last finalizer":          {wrote: secret("1", "7", true), cached: secret("1", "6", true)},
		"it has the end after the last finalizer":                {wrote: secret("1", "7", true), want: true},
		"it has an object of the same name that came after it":   {wrote: secret("1", "7", true), cached: secret("2", "9", false), want: true},
		"it waits where a finalizer was removed and one is left": {wrote: held, cached: secret("1", "6", true)},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWritten(), fake.NewClientBuilder().WithScheme(service.Scheme()).Build()
			build, all := newInformer(service.Scheme())
			i := build(&cache.ListWatch{}, &corev1.Secret{}, 0, cache.Indexers{}).(*informer)
			h := i.observe(cache.ResourceEventHandlerFuncs{})
			if tc.cached != nil {
				if err := i.GetStore().Add(tc.cached); err != nil {
					t.Fatal(err)
				}
				if !tc.behind {
					h.OnAdd(tc.cached, false)
				}
			}
			if tc.deleted {
				w.set(c, tc.wrote, write{uid: tc.wrote.UID, deleted: true})
			} else if err := w.note(c, tc.wrote, nil); err != nil {
				t.Fatal(err)
			}
			if err := w.caughtUp(all()); (err == nil) != tc.want {
				t.Errorf("caught up: %v, want %t", err, tc.want)
			}
			if forgotten := len(w.last) == 0; forgotten != tc.want {
				t.Errorf("it has forgotten the write: %t", forgotten)
			}
		})
	}
}

func TestTimeMovesOnInStepsOfAGrain(t *testing.T) {
	for name, tc := range map[string]struct{ grain, end, want time.Duration }{
		"it goes to each moment":                    {end: 3 * time.Hour, want: time.Hour},
		"it goes no less far than a grain":          {grain: 90 * time.Minute, end: 3 * time.Hour, want: 90 * time.Minute},
		"it goes to what is due later than a grain": {grain: 10 * time.Minute, end: 3 * time.Hour, want: time.Hour},
		"it goes no further than the end":           {grain: 90 * time.Minute, end: 80 * time.Minute, want: 80 * time.Minute},
		"it goes to the end where nothing is due":   {end: 30 * time.Minute, want: 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			c := New()
			c.Grain = tc.grain
			q := newQueue(c.clock, nil)
			q.AddAfter(item("a"), 2*time.Hour)
			q.AddAfter(item("b"), time.Hour)
			c.inside = &surroundings{queues: []*queue{q}}
			if got := c.next(c.Now().Add(tc.end)).Sub(c.Now()); got != tc.want {
				t.Errorf("it goes on by %s, want %s", got, tc.want)
			}
		})
	}
}
