package plan

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/key"
)

const field = "colour"

func colour(obj client.Object) []string { return []string{obj.GetLabels()[field]} }

// newPlan returns a plan of a cluster with these objects, none of which may be written.
func newPlan(t *testing.T, objects ...client.Object) *Plan {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&v1.AivenApplication{}, field, colour).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				t.Error("something was created")
				return nil
			},
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				t.Error("something was patched")
				return nil
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
				t.Error("something was deleted")
				return nil
			},
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				t.Error("a status was patched")
				return nil
			},
		}).Build()
	return New(c, c, nil, map[string]client.IndexerFunc{field: colour})
}

func meta(name string, edits ...func(*metav1.ObjectMeta)) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "1"}
	for _, edit := range edits {
		edit(&m)
	}
	return m
}

func merge(patch string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(patch))
}

func at(name string) client.ObjectKey { return client.ObjectKey{Namespace: "shop", Name: name} }

// stepsOf are the recorded ones of a Secret.
func (p *Plan) stepsOf(name string) []Step {
	return p.record.subject(id{kindSecret, at(name)}).Steps
}

func TestWhatIsWrittenIsReadAndGoesNowhere(t *testing.T) {
	ctx := t.Context()
	p := newPlan(t, &corev1.Secret{
		ObjectMeta: meta("creds", func(m *metav1.ObjectMeta) { m.Finalizers = []string{"a"} }), Data: map[string][]byte{"A": []byte("1"), "B": []byte("2")},
	})
	c := p.Client()
	patches := []client.Patch{
		merge(`{"data":{"A":"Mg==","B":null,"C":"Mw=="},"metadata":{"labels":{"l":"1"},"annotations":{"n":"1","keysmith.io/owner":"x"}}}`),
		client.RawPatch("application/json-patch+json", []byte(`[
			{"op":"test","path":"/metadata/deletionTimestamp","value":null},{"op":"test","path":"/metadata/uid","value":"1"},
			{"op":"test","path":"/metadata/finalizers","value":["a"]},{"op":"add","path":"/metadata/finalizers","value":["a","b"]}]`)),
	}
	for _, patch := range patches {
		if err := c.Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "creds"}}, patch); err != nil {
			t.Fatal(err)
		}
	}
	for where, r := range map[string]client.Reader{"cache": c, "API server": p.Server()} {
		s := &corev1.Secret{}
		if err := r.Get(ctx, at("creds"), s); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string][]byte{"A": []byte("2"), "C": []byte("3")}, s.Data); diff != "" {
			t.Errorf("%s (-want +got):\n%s", where, diff)
		}
		if diff := cmp.Diff([]string{"a", "b"}, s.Finalizers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", where, diff)
		}
	}
	want := []Step{{
		Action: Update, Kind: kindSecret, Name: "creds", Changes: []string{"data A", "data B", "data C", "label l", "annotation n"},
	}}
	if diff := cmp.Diff(want, p.stepsOf("creds")); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestAPatchThatDoesNotFitFails(t *testing.T) {
	p := newPlan(t, &corev1.Secret{ObjectMeta: meta("creds")})
	patch := client.RawPatch("application/json-patch+json", []byte(`[{"op":"test","path":"/metadata/uid","value":"2"}]`))
	if err := p.Client().Patch(t.Context(), &corev1.Secret{ObjectMeta: meta("creds")}, patch); err == nil {
		t.Error("the patch of another object was taken")
	}
}

func TestCreateMeetsWhatIsThere(t *testing.T) {
	ctx := t.Context()
	p := newPlan(t, &corev1.Secret{ObjectMeta: meta("theirs")})
	if err := p.Client().Create(ctx, &corev1.Secret{ObjectMeta: meta("theirs")}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create what exists: %v", err)
	}
	if err := p.Client().Create(ctx, &corev1.Secret{ObjectMeta: meta("ours"), Data: map[string][]byte{"A": nil}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Client().Create(ctx, &corev1.Secret{ObjectMeta: meta("ours")}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create it again: %v", err)
	}
	want := []Step{{Action: Create, Kind: kindSecret, Name: "ours"}}
	if diff := cmp.Diff(want, p.stepsOf("ours")); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestFinalizersHoldADeletion(t *testing.T) {
	ctx := t.Context()
	p := newPlan(t,
		&corev1.Secret{ObjectMeta: meta("held", func(m *metav1.ObjectMeta) { m.Finalizers = []string{"a"} })},
		&corev1.Secret{ObjectMeta: meta("free")},
	)
	for _, name := range []string{"held", "free"} {
		if err := p.Client().Delete(because(ctx, "it is unused"), &corev1.Secret{ObjectMeta: meta(name)}); err != nil {
			t.Fatal(err)
		}
		want := []Step{{Action: Delete, Kind: kindSecret, Name: name, Message: "it is unused"}}
		if diff := cmp.Diff(want, p.stepsOf(name)); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
	}
	if err := p.Client().Get(ctx, at("free"), &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("nothing held it, and it is there: %v", err)
	}
	held := &corev1.Secret{}
	if err := p.Client().Get(ctx, at("held"), held); err != nil || held.DeletionTimestamp == nil {
		t.Fatalf("a finalizer held it: %v, deleted at %v", err, held.DeletionTimestamp)
	}
	if err := p.Client().Patch(ctx, held, merge(`{"metadata":{"finalizers":null}}`)); err != nil {
		t.Fatal(err)
	}
	meta := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	if err := p.Server().Get(ctx, at("held"), meta); !apierrors.IsNotFound(err) {
		t.Errorf("nothing holds it any more, and it is there: %v", err)
	}
}

func TestListsShowWhatWasWritten(t *testing.T) {
	ctx := t.Context()
	colours := map[string]string{"a": "red", "b": "red", "c": "blue", "d": "red"}
	var objects []client.Object
	for name, c := range colours {
		objects = append(objects, &v1.AivenApplication{ObjectMeta: meta(name, func(m *metav1.ObjectMeta) { m.Labels = map[string]string{field: c} })})
	}
	p := newPlan(t, objects...)
	if err := p.Client().Delete(ctx, &v1.AivenApplication{ObjectMeta: meta("a")}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]string{"b": "blue", "c": "red"} {
		if err := p.Client().Patch(ctx, &v1.AivenApplication{ObjectMeta: meta(name)}, merge(`{"metadata":{"labels":{"colour":"`+c+`"}}}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Client().Status().Patch(ctx, &v1.AivenApplication{ObjectMeta: meta("d")}, merge(`{"status":{"synchronizationHash":"x"}}`)); err != nil {
		t.Fatal(err)
	}
	for want, opts := range map[string][]client.ListOption{
		"b c d/x": nil,
		"c d/x":   {client.MatchingFields{field: "red"}, client.InNamespace("shop")},
		"b":       {client.MatchingFields{field: "blue"}},
		"":        {client.MatchingFields{field: "blue"}, client.InNamespace("elsewhere")},
	} {
		var list v1.AivenApplicationList
		if err := p.Client().List(ctx, &list, opts...); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, app := range list.Items {
			names = append(names, strings.TrimSuffix(app.Name+"/"+app.Status.SynchronizationHash, "/"))
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDifferences(t *testing.T) {
	secret := func(data map[string][]byte, annotations map[string]string, finalizers ...string) *corev1.Secret {
		return &corev1.Secret{Data: data, ObjectMeta: metav1.ObjectMeta{Annotations: annotations, Finalizers: finalizers}}
	}
	tests := map[string]struct {
		before, after client.Object
		want          []string
	}{
		"it names data keys of a new one": {after: secret(map[string][]byte{"B": []byte("2"), "A": {}}, map[string]string{"n": "1"}), want: []string{"data A", "data B"}},
		"it leaves out what the operator keeps for itself": {
			before: secret(nil, nil), after: secret(nil, map[string]string{key.AnnotationOwner: "x", key.AnnotationStores: "y"}, "finalizer"),
		},
		"it takes an empty annotation for none": {before: secret(nil, map[string]string{"n": ""}), after: secret(nil, nil)},
		"it tells an empty value from none":     {before: secret(map[string][]byte{"A": {}}, nil), after: secret(nil, nil), want: []string{"data A"}},
		"it names what is changed, new and gone": {
			before: secret(map[string][]byte{"A": []byte("1"), "B": []byte("2"), "C": []byte("3")}, map[string]string{"n": "1"}),
			after:  secret(map[string][]byte{"A": []byte("1"), "B": []byte("3"), "D": []byte("4")}, map[string]string{"n": "2"}),
			want:   []string{"data B", "data C", "data D", "annotation n"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, differences(tc.before, tc.after)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheTableHasALineForEachStep(t *testing.T) {
	r := &Report{
		Applications: []*Subject{
			{Namespace: "shop", Name: "cart", Result: Changes, Steps: []Step{
				{Action: Keep, Kind: kindUser, Name: "u", Service: "dev/kafka"},
				{Action: Update, Kind: kindUser, Name: "v", Service: "dev/kafka", Changes: []string{"grant read on topic t"}},
				{Action: Update, Kind: kindUser, Name: "v", Service: "dev/kafka", Changes: []string{"revoke read on topic s"}},
				{Action: Blocked, Kind: kindSecret, Name: "s", Reason: "SecretNotOwned", Message: "choose another name"},
			}},
			{Namespace: "shop", Name: "idle", Result: Unchanged},
		},
		Secrets: []*Subject{{Namespace: "shop", Name: "old", Result: Changes, Steps: []Step{{Action: Delete, Kind: kindSecret, Name: "old", Message: "it is unused"}}}},
	}
	r.summarize()
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	want := `NAMESPACE  OBJECT      ACTION   WHAT                          DETAIL
shop       cart        keep     user u on dev/kafka
shop       cart        update   user v on dev/kafka           grant read on topic t
shop       cart        update   user v on dev/kafka           revoke read on topic s
shop       cart        blocked  Secret s                      SecretNotOwned: choose another name
shop       idle        keep     nothing, as it asks for none
shop       secret/old  delete   Secret old                    it is unused

Applications: 1 unchanged, 1 changes, 0 not ready.
Users: 1 keep, 0 create, 1 update, 0 delete.
Secrets: 0 keep, 0 create, 0 update, 1 delete, 1 blocked.
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
