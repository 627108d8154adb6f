package orphans

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/golden"
	"github.com/keysmith-io/keysmith/pkg/key"
	"github.com/keysmith-io/keysmith/resource/secret"
	"github.com/keysmith-io/keysmith/service"
	"github.com/keysmith-io/keysmith/service/controller"
)

// bed is a simulated Aiven, and objects of a cluster called prod.
type bed struct {
	sim                   *aivensim.Simulator
	kafka, search, valkey *aivensim.Service
	api                   *aiven.Client
	objects               []client.Object
}

func newBed(t *testing.T) *bed {
	t.Helper()
	began := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	b := &bed{sim: aivensim.New(aivensim.Options{Token: "token", KeySize: 2048, ECDSA: true, Seed: 1, Clock: clocktesting.NewFakePassiveClock(began)})}
	b.kafka = b.sim.AddProject("dev").AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka})
	main := b.sim.AddProject("main")
	b.search = main.AddService("opensearch-shop-logs", aivensim.ServiceConfig{Type: aivensim.OpenSearch})
	b.valkey = main.AddService("valkey-shop-sessions", aivensim.ServiceConfig{Type: aivensim.Valkey})
	server := httptest.NewServer(b.sim)
	t.Cleanup(server.Close)
	var err error
	if b.api, err = aiven.New(aiven.Options{URL: server.URL, Token: func() string { return "token" }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.api.Close)
	b.objects = []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid-of-the-cluster"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
	}
	return b
}

func (b *bed) options() Options { return Options{Projects: []string{"dev", "main"}, Cluster: "prod"} }

func (b *bed) cluster() client.Client {
	return fake.NewClientBuilder().WithScheme(service.Scheme()).WithObjects(b.objects...).Build()
}

func (b *bed) find(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := find(t.Context(), b.api, b.cluster(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// user adds a user to a service and returns its name.
func user(s *aivensim.Service, name string) string {
	return s.AddUser(aivensim.User{Username: name}).Username
}

func identity(s *aivensim.Service, namespace, application string) key.Identity {
	project := "main"
	if s.Type() == aivensim.Kafka {
		project = "dev"
	}
	return key.Identity{Cluster: "prod", Namespace: namespace, Application: application, Project: project, Service: s.Name()}
}

func elsewhere(id key.Identity) key.Identity {
	id.Cluster = "another"
	return id
}

func app(namespace, name string, records ...v1.Binding) *v1.AivenApplication {
	return &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Status: v1.AivenApplicationStatus{Bindings: records}}
}

func managed(name string, annotations map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Annotations: annotations, Labels: map[string]string{key.LabelType: key.TypeAivenator, key.LabelApp: "cart"},
	}}
}

// names are the names that a report has in a class, sorted.
func names(list []Finding) []string {
	out := []string{}
	for _, f := range list {
		out = append(out, f.Username)
	}
	slices.Sort(out)
	return out
}

func TestClasses(t *testing.T) {
	type world struct {
		*bed
		orphan, unclear []string // what is expected
	}
	tests := map[string]func(w *world){
		"it finds none where there are no users": func(*world) {},
		"it finds users of an application that is there": func(w *world) {
			w.objects = append(w.objects, app("shop", "cart"))
			w.orphan = append(w.orphan,
				user(w.kafka, identity(w.kafka, "shop", "cart").Kafka()),
				user(w.search, identity(w.search, "shop", "cart").OpenSearch("write")),
				user(w.valkey, identity(w.valkey, "shop", "cart").Valkey("admin")))
		},
		"it finds users of later attempts": func(w *world) {
			w.objects = append(w.objects, app("shop", "cart"))
			k, v := identity(w.kafka, "shop", "cart"), identity(w.valkey, "shop", "cart")
			k.Attempt, v.Attempt = 3, 700
			w.orphan = append(w.orphan, user(w.kafka, k.Kafka()), user(w.valkey, v.Valkey("read")))
		},
		"it finds users of an application and a namespace that are gone": func(w *world) {
			w.orphan = append(w.orphan,
				user(w.kafka, identity(w.kafka, "teamold", "teamold-billing").Kafka()),
				user(w.valkey, identity(w.valkey, "shop", "gone-r").Valkey("read")))
			// The name of an OpenSearch user does not tell the application.
			w.unclear = append(w.unclear, user(w.search, identity(w.search, "shop", "gone").OpenSearch("read")))
		},
		"it finds users of an application that a Secret still tells of": func(w *world) {
			w.objects = append(w.objects, managed("other", map[string]string{key.AnnotationOwner: "shop/other cart"}))
			w.orphan = append(w.orphan, user(w.search, identity(w.search, "shop", "cart").OpenSearch("admin")))
		},
		"it leaves alone what statuses record, whatever their state": func(w *world) {
			k, v := identity(w.kafka, "shop", "cart").Kafka(), identity(w.valkey, "shop", "cart").Valkey("read")
			user(w.kafka, k)
			user(w.valkey, v)
			w.objects = append(w.objects, app("shop", "cart",
				v1.Binding{Kind: "kafka", Project: "dev", Username: k, State: "Pending"},
				v1.Binding{Kind: "valkey", Project: "main", Service: w.valkey.Name(), Username: v, State: "Deleting"}))
		},
		"it leaves alone what Secrets record, also those of the earlier operator and copies": func(w *world) {
			k, v, o := identity(w.kafka, "shop", "cart").Kafka(), identity(w.valkey, "shop", "cart").Valkey("read"), "shop-r-Ab_"
			user(w.kafka, k)
			user(w.valkey, v)
			user(w.search, o)
			w.objects = append(w.objects,
				managed("earlier", map[string]string{key.AnnotationKafkaUser: k, key.AnnotationKafkaPool: "dev"}),
				managed("earlier-search", map[string]string{
					key.AnnotationOpenSearchUser: o, key.AnnotationOpenSearchProject: "main", key.AnnotationOpenSearchService: w.search.Name(),
				}),
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "copy", Annotations: map[string]string{
					key.AnnotationOwner: "shop/original cart", key.ValkeyUser("sessions"): v, key.ValkeyService("sessions"): w.valkey.Name(), key.AnnotationValkeyProject: "main",
				}}})
		},
		"it does not take a record of another project or service for one": func(w *world) {
			k, v := identity(w.kafka, "shop", "cart").Kafka(), identity(w.valkey, "shop", "cart").Valkey("read")
			w.objects = append(w.objects, app("shop", "cart",
				v1.Binding{Kind: "kafka", Project: "prod", Username: k},
				v1.Binding{Kind: "valkey", Project: "main", Service: "valkey-shop-other", Username: v}))
			w.orphan = append(w.orphan, user(w.kafka, k), user(w.valkey, v))
		},
		"it does not claim users of another cluster": func(w *world) {
			w.objects = append(w.objects, app("shop", "cart"))
			w.unclear = append(w.unclear,
				user(w.kafka, elsewhere(identity(w.kafka, "shop", "cart")).Kafka()),
				user(w.search, elsewhere(identity(w.search, "shop", "cart")).OpenSearch("read")),
				user(w.valkey, elsewhere(identity(w.valkey, "shop", "cart")).Valkey("read")))
		},
		"it does not claim users of the earlier operator": func(w *world) {
			w.objects = append(w.objects, app("shop", "cart"))
			w.unclear = append(w.unclear,
				user(w.kafka, key.KafkaStem("shop", "cart")+"A-_"), user(w.search, "shop-rw-Ab1"), user(w.valkey, "cart-w-Ab1"))
		},
		"it says nothing of people": func(w *world) {
			w.objects = append(w.objects, app("shop", "cart"))
			for _, s := range []*aivensim.Service{w.kafka, w.search, w.valkey} {
				for _, name := range []string{"jane", "jane-doe", "a_b", "x", "ab", "cart", "shop", "cart_r"} {
					user(s, name)
				}
			}
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{bed: newBed(t), orphan: []string{}, unclear: []string{}}
			prepare(w)
			r := w.find(t, w.options())
			slices.Sort(w.orphan)
			slices.Sort(w.unclear)
			if diff := cmp.Diff(w.orphan, names(r.Orphans)); diff != "" {
				t.Errorf("orphans (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(w.unclear, names(r.Unclear)); diff != "" {
				t.Errorf("unclear (-want +got)\n%s", diff)
			}
		})
	}
}

func TestAnApplicationThatWasHereOnceCanBeNamed(t *testing.T) {
	b := newBed(t)
	o := b.options()
	name := user(b.search, identity(b.search, "shop", "gone").OpenSearch("read"))
	o.Gone = []string{"shop/gone"}
	if diff := cmp.Diff([]string{name}, names(b.find(t, o).Orphans)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	o.Gone = []string{"gone"}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("got %v", err)
	}
}

func TestTheClusterIsKnownByKubeSystem(t *testing.T) {
	b := newBed(t)
	id := identity(b.kafka, "shop", "cart")
	id.Cluster = "uid-of-the-cluster"
	name := user(b.kafka, id.Kafka())
	o := b.options()
	o.Cluster = ""
	r := b.find(t, o)
	if diff := cmp.Diff([]string{name}, names(r.Orphans)); diff != "" || r.Cluster != id.Cluster {
		t.Errorf("cluster %q (-want +got)\n%s", r.Cluster, diff)
	}
}

func TestAWrongClusterIsSuspected(t *testing.T) {
	b := newBed(t)
	id := identity(b.kafka, "shop", "cart")
	b.objects = append(b.objects, app("shop", "cart", v1.Binding{Kind: "kafka", Project: "dev", Service: "kafka", Username: id.Kafka()}))
	o := b.options()
	if r := b.find(t, o); r.Warning != "" {
		t.Errorf("the right one is suspected: %s", r.Warning)
	}
	o.Cluster = "another"
	if r := b.find(t, o); !strings.Contains(r.Warning, `"another"`) {
		t.Errorf("got %q", r.Warning)
	}
}

// Whoever looks for the users of one cluster in another one is not to delete what is in use there.
func TestTheUsersOfAnotherClusterAreNotDeleted(t *testing.T) {
	tests := map[string]func(b *bed){
		"from one that has no applications": func(*bed) {},
		"from one that has some": func(b *bed) {
			id := elsewhere(identity(b.kafka, "shop", "cart"))
			b.objects = append(b.objects, app("shop", "cart", v1.Binding{Kind: "kafka", Project: "dev", Service: "kafka", Username: id.Kafka()}))
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			used := user(b.kafka, identity(b.kafka, "shop", "basket").Kafka())
			prepare(b)
			if r := b.find(t, b.options()); r.Warning == "" {
				t.Error("there is no warning")
			}
			_, err := b.delete(t, Deletion{Users: []string{used}})
			if _, ok := b.kafka.User(used); !ok || err == nil || !strings.Contains(err.Error(), "nothing was deleted") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A user that is recorded while the command runs, in the order in which the operator records, is never called an orphan.
func TestRecordsThatMoveAreSeen(t *testing.T) {
	name := identity(newBed(t).kafka, "shop", "cart").Kafka()
	status := app("shop", "cart", v1.Binding{Kind: "kafka", Project: "dev", Service: "kafka", Username: name})
	held := managed("creds", map[string]string{key.AnnotationOwner: "shop/creds cart", key.AnnotationKafkaUser: name, key.AnnotationKafkaPool: "dev"})
	type move func(ctx context.Context, c client.WithWatch) error
	create := func(o client.Object) move {
		return func(ctx context.Context, c client.WithWatch) error {
			o = o.DeepCopyObject().(client.Object)
			o.SetResourceVersion("")
			return c.Create(ctx, o)
		}
	}
	remove := func(o client.Object) move {
		return func(ctx context.Context, c client.WithWatch) error {
			return c.Delete(ctx, o.DeepCopyObject().(client.Object))
		}
	}
	tests := map[string]struct {
		before []client.Object
		moves  map[int][]move // before the list call of that number
	}{
		"it is recorded while Aiven is read":                       {nil, map[int][]move{1: {create(status)}}},
		"its application goes early, after its Secret was written": {[]client.Object{status}, map[int][]move{2: {create(held), remove(status)}}},
		"its application goes late, after its Secret was written":  {[]client.Object{status}, map[int][]move{3: {create(held), remove(status)}}},
		"its status is restored from its Secret":                   {[]client.Object{held}, map[int][]move{3: {create(status), remove(held)}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			user(b.kafka, identity(b.kafka, "shop", "cart").Kafka())
			b.objects = append(b.objects, tt.before...)
			calls := 0
			cluster := interceptor.NewClient(b.cluster().(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					calls++
					for _, m := range tt.moves[calls] {
						if err := client.IgnoreAlreadyExists(client.IgnoreNotFound(m(ctx, c))); err != nil {
							return err
						}
					}
					return c.List(ctx, list, opts...)
				},
			})
			r, err := find(t.Context(), b.api, cluster, b.options())
			if err != nil || len(r.Orphans) > 0 {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

func TestNothingIsCalledAnOrphanWithoutTheRightToSeeEverything(t *testing.T) {
	for _, resource := range []string{"namespaces", "secrets", "aivenapplications"} {
		t.Run(resource, func(t *testing.T) {
			b := newBed(t)
			user(b.kafka, identity(b.kafka, "shop", "cart").Kafka())
			cluster := interceptor.NewClient(b.cluster().(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					gvk, err := c.GroupVersionKindFor(list)
					if err != nil {
						return err
					}
					if kind := strings.ToLower(strings.TrimSuffix(gvk.Kind, "List")) + "s"; kind == resource {
						return apierrors.NewForbidden(schema.GroupResource{Group: gvk.Group, Resource: kind}, "",
							errors.New(`User "jane" cannot list resource "`+kind+`" in API group "`+gvk.Group+`" at the cluster scope`))
					}
					return c.List(ctx, list, opts...)
				},
			})
			var out bytes.Buffer
			err := List(t.Context(), b.api, cluster, b.options(), &out)
			if err == nil || !strings.Contains(err.Error(), "you (jane) lack the right to list "+resource) || out.Len() > 0 {
				t.Errorf("got %v and %q", err, out.String())
			}
		})
	}
}

func TestAServiceThatCannotBeReadEndsIt(t *testing.T) {
	b := newBed(t)
	b.sim.Inject(aivensim.Rule{Operation: aivensim.ServiceGet, Service: b.valkey.Name(), Answer: aivensim.Error(503, "", "Service Unavailable")})
	var out bytes.Buffer
	err := List(t.Context(), b.api, b.cluster(), b.options(), &out)
	if err == nil || !strings.Contains(err.Error(), b.valkey.Name()) || out.Len() > 0 {
		t.Errorf("got %v and %q", err, out.String())
	}
}

// shop makes users of every class.
func (b *bed) shop() (orphan string) {
	recorded := user(b.kafka, identity(b.kafka, "shop", "cart").Kafka())
	b.objects = append(b.objects,
		app("shop", "cart", v1.Binding{Kind: "kafka", Project: "dev", Service: "kafka", Username: recorded}),
		managed("earlier", map[string]string{key.AnnotationKafkaUser: user(b.kafka, key.KafkaStem("shop", "cart")+"A-b"), key.AnnotationKafkaPool: "dev"}))
	orphan = user(b.kafka, identity(b.kafka, "shop", "basket").Kafka())
	user(b.valkey, identity(b.valkey, "shop", "basket").Valkey("readwrite"))
	user(b.kafka, elsewhere(identity(b.kafka, "shop", "cart")).Kafka())
	user(b.kafka, "jane")
	return orphan
}

func TestText(t *testing.T) {
	b := newBed(t)
	b.shop()
	got := b.find(t, b.options()).Text(true)
	golden.Compare(t, "testdata/orphans.golden", got)
}

func (b *bed) delete(t *testing.T, d Deletion) (string, error) {
	t.Helper()
	d.Options = b.options()
	if d.Ref.Service == "" {
		d.Ref = aiven.Ref{Project: "dev", Service: "kafka"}
	}
	var out bytes.Buffer
	err := Delete(t.Context(), b.api, controller.Resources(b.api, &secret.Resource{}), b.cluster(), d, &out)
	return out.String(), err
}

func TestDelete(t *testing.T) {
	b := newBed(t)
	orphan := b.shop()
	b.kafka.AddKafkaACL(aivensim.KafkaACL{Username: orphan, Topic: "orders", Permission: "read"})
	b.kafka.AddKafkaACL(aivensim.KafkaACL{Username: "jane", Topic: "orders", Permission: "read"})
	before := len(b.kafka.Users())
	if _, err := b.delete(t, Deletion{Users: []string{orphan}, Confirm: strings.NewReader("no\n")}); err == nil || len(b.kafka.Users()) != before {
		t.Errorf("without a yes: got %v, and %d users of %d", err, len(b.kafka.Users()), before)
	}
	if _, err := b.delete(t, Deletion{Users: []string{orphan}, Confirm: strings.NewReader("yes\n")}); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.kafka.User(orphan); ok || len(b.kafka.Users()) != before-1 {
		t.Errorf("users are %v", b.kafka.Users())
	}
	for _, e := range b.kafka.KafkaACLs() {
		if e.Username == orphan {
			t.Errorf("the right %+v is left", e)
		}
	}
	var order []aivensim.Operation
	for _, e := range b.sim.Journal() {
		if e.Operation == aivensim.ServiceUserDelete || e.Operation == aivensim.ServiceKafkaACLDelete {
			order = append(order, e.Operation)
		}
	}
	if diff := cmp.Diff([]aivensim.Operation{aivensim.ServiceKafkaACLDelete, aivensim.ServiceUserDelete}, order); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
}

func TestDeleteTakesTheRightsOfOpenSearchToo(t *testing.T) {
	b := newBed(t)
	b.objects = append(b.objects, app("shop", "cart", v1.Binding{Kind: "kafka", Project: "dev", Service: "kafka", Username: identity(b.kafka, "shop", "cart").Kafka()}))
	orphan := user(b.search, identity(b.search, "shop", "cart").OpenSearch("read"))
	for _, name := range []string{orphan, "jane"} {
		b.search.AddOpenSearchACL(aivensim.OpenSearchACL{Username: name, Rules: []aivensim.OpenSearchRule{{Index: "*", Permission: "read"}}})
	}
	if _, err := b.delete(t, Deletion{Ref: aiven.Ref{Project: "main", Service: b.search.Name()}, Users: []string{orphan}}); err != nil {
		t.Fatal(err)
	}
	if acls := b.search.OpenSearchACLs().ACLs; len(acls) != 1 || acls[0].Username != "jane" {
		t.Errorf("rights are %+v", acls)
	}
}

func TestDeleteRefuses(t *testing.T) {
	tests := map[string]struct {
		user func(b *bed, orphan string) string
		want string
	}{
		"a user that a status records": {
			func(b *bed, _ string) string { return identity(b.kafka, "shop", "cart").Kafka() }, "is no orphan: the status of application shop/cart records it",
		},
		"a user that a Secret records": {
			func(*bed, string) string { return key.KafkaStem("shop", "cart") + "A-b" }, "is no orphan: Secret shop/earlier records it",
		},
		"a built-in user":          {func(*bed, string) string { return "avnadmin" }, "is built in"},
		"a person's user":          {func(*bed, string) string { return "jane" }, "has no name that keysmith makes"},
		"a user that is not there": {func(*bed, string) string { return "nobody" }, "does not exist"},
		"another cluster's user": {
			func(b *bed, _ string) string { return elsewhere(identity(b.kafka, "shop", "cart")).Kafka() }, "nothing proves that this cluster made it",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			orphan := b.shop()
			refused := tt.user(b, orphan)
			_, err := b.delete(t, Deletion{Users: []string{orphan, refused}})
			if err == nil || !strings.Contains(err.Error(), `"`+refused+`"`) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
			for _, e := range b.sim.Journal() {
				if strings.HasSuffix(string(e.Operation), "Delete") {
					t.Errorf("%s was called", e.Operation)
				}
			}
		})
	}
	t.Run("unless it is told that an unclear one may go", func(t *testing.T) {
		b := newBed(t)
		b.shop()
		name := elsewhere(identity(b.kafka, "shop", "cart")).Kafka()
		if _, err := b.delete(t, Deletion{Users: []string{name}, Unclear: true}); err != nil {
			t.Fatal(err)
		}
		if _, ok := b.kafka.User(name); ok {
			t.Error("it is still there")
		}
	})
}

// late answers yes, after somebody has recorded the user.
type late struct {
	record func()
	*strings.Reader
}

func (l *late) Read(p []byte) (int, error) {
	l.record()
	return l.Reader.Read(p)
}

func TestDeleteLooksOnceMoreAfterTheAnswer(t *testing.T) {
	b := newBed(t)
	orphan := b.shop()
	cluster := b.cluster()
	d := Deletion{Options: b.options(), Ref: aiven.Ref{Project: "dev", Service: "kafka"}, Users: []string{orphan}}
	d.Confirm = &late{Reader: strings.NewReader("yes\n"), record: func() {
		held := managed("restored", map[string]string{key.AnnotationKafkaUser: orphan, key.AnnotationKafkaPool: "dev"})
		if err := client.IgnoreAlreadyExists(cluster.Create(t.Context(), held)); err != nil {
			t.Error(err)
		}
	}}
	var out bytes.Buffer
	err := Delete(t.Context(), b.api, controller.Resources(b.api, &secret.Resource{}), cluster, d, &out)
	if _, ok := b.kafka.User(orphan); !ok || err == nil || !strings.Contains(err.Error(), "Secret shop/restored records it") {
		t.Errorf("got %v", err)
	}
}
