package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/stage"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	v2 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v2"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

// The simulated Aiven: streams is the project that holds Kafka, data the one that holds the rest.
const (
	kafkaProject = "streams"
	mainProject  = "data"
	token        = "avnT_demo_token"
	latency      = 20 * time.Millisecond
)

// The application and its Secrets, as application.yaml names them.
const (
	application      = "webshop"
	kafkaSecret      = "webshop-kafka"
	openSearchSecret = "webshop-opensearch"
	valkeySecret     = "webshop-valkey"
)

//go:embed application.yaml
var manifest string

func (d *demo) build(ctx context.Context) (err error) {
	if d.stage, err = stage.Open(ctx); err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "keysmith-demo-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	d.say("The first time this compiles the Kubernetes libraries, which takes a minute or two.")
	began := time.Now()
	if d.binary, err = operator.Build(ctx, d.dir); err != nil {
		return err
	}
	d.checked("%s, after %s", d.binary, time.Since(began).Round(100*time.Millisecond))
	return nil
}

func (d *demo) start(ctx context.Context) (err error) {
	if d.namespace, err = d.stage.Namespace(ctx, "demo-"); err != nil {
		return err
	}
	if err := d.startAiven(ctx); err != nil {
		return err
	}
	d.operator, err = operator.Start(operator.Options{
		Binary:     d.binary,
		Kubeconfig: os.Getenv(env.Kubeconfig),
		Args: []string{
			"--namespaces=" + d.namespace, "--leader-election-namespace=" + d.namespace,
			"--aiven-url=" + d.server.URL, "--projects=" + kafkaProject, "--main-project=" + mainProject,
			"--janitor-period=2s", "--janitor-grace=1s",
		},
		Env: []string{"KEYSMITH_AIVEN_TOKEN=" + token},
	})
	if err != nil {
		return err
	}
	go func() {
		<-d.operator.Done()
		d.cancel(errors.New("the operator has ended"))
	}()
	if err := stage.Await(ctx, patience, d.operator.Ready); err != nil {
		return err
	}
	d.checked("the operator runs and is ready; its janitor looks every 2 seconds, for the sake of this demo")
	d.checked("it works in namespace %s alone", d.namespace)
	return nil
}

// startAiven makes the services, and in the namespace the objects that stand for the instances.
func (d *demo) startAiven(ctx context.Context) error {
	d.aiven = aivensim.New(aivensim.Options{Token: token, Latency: latency, KeySize: 2048})
	d.server = httptest.NewServer(d.aiven)
	d.kafka = d.aiven.AddProject(kafkaProject).AddService("kafka", aivensim.ServiceConfig{Type: aivensim.Kafka, SchemaRegistry: true})
	d.aiven.AddProject(mainProject)
	for _, instance := range []struct {
		kind   binding.Kind
		name   string
		config aivensim.ServiceConfig
		to     **aivensim.Service
	}{
		{binding.OpenSearch, "products", aivensim.ServiceConfig{Type: aivensim.OpenSearch}, &d.openSearch},
		{binding.Valkey, "sessions", aivensim.ServiceConfig{Type: aivensim.Valkey, Replica: true}, &d.sessions},
		{binding.Valkey, "cache", aivensim.ServiceConfig{Type: aivensim.Valkey}, &d.cache},
	} {
		name := fmt.Sprintf("%s-%s-%s", instance.kind, d.namespace, instance.name)
		*instance.to = d.aiven.Project(mainProject).AddService(name, instance.config)
		if err := d.stage.Instance(ctx, instance.kind, d.namespace, name); err != nil {
			return err
		}
	}
	d.say("Aiven is simulated at %s and takes %s for each call. It has:", d.server.URL, latency)
	fmt.Fprintln(d.out)
	d.table(
		[]string{"PROJECT", "SERVICE", "HELD IN NAMESPACE BY"},
		[]string{kafkaProject, d.kafka.Name(), "(any may use it)"},
		[]string{mainProject, d.openSearch.Name(), "OpenSearch " + d.openSearch.Name()},
		[]string{mainProject, d.sessions.Name(), "Valkey " + d.sessions.Name()},
		[]string{mainProject, d.cache.Name(), "Valkey " + d.cache.Name()},
	)
	return nil
}

func (d *demo) apply(ctx context.Context) error {
	d.say("%s", strings.TrimSuffix(manifest, "\n"))
	fmt.Fprintln(d.out)
	app := &v2.AivenApplication{}
	if err := yaml.UnmarshalStrict([]byte(manifest), app); err != nil {
		return fmt.Errorf("read application.yaml: %w", err)
	}
	app.Namespace = d.namespace
	if err := d.stage.Create(ctx, app); err != nil {
		return fmt.Errorf("create application %s: %w", app.Name, err)
	}
	return d.ready(ctx)
}

// ready waits until the application is ready in its current generation.
func (d *demo) ready(ctx context.Context) error {
	return d.await(ctx, "application "+application+" is Ready", func(ctx context.Context) error {
		app := &v1.AivenApplication{}
		if err := d.stage.Get(ctx, d.at(application), app); err != nil {
			return err
		}
		return isReady(app)
	})
}

func isReady(app *v1.AivenApplication) error {
	switch {
	case app.Status.ObservedGeneration == app.Generation:
		for _, c := range app.Status.Conditions {
			switch {
			case c.Type != v1.ConditionReady:
			case c.Status == corev1.ConditionTrue:
				return nil
			default:
				return fmt.Errorf("expected Ready=True, found %s: %s: %s", c.Status, c.Reason, c.Message)
			}
		}
	case app.Status.ObservedGeneration > 0:
		return fmt.Errorf("expected a status of generation %d, found that of %d", app.Generation, app.Status.ObservedGeneration)
	case len(app.Status.Bindings) > 0:
		return fmt.Errorf("expected Ready=True, found the names of %d users recorded", len(app.Status.Bindings))
	}
	return errors.New("expected Ready=True, found no status")
}

func (d *demo) status(ctx context.Context) error {
	app := &v1.AivenApplication{}
	if err := d.stage.Get(ctx, d.at(application), app); err != nil {
		return fmt.Errorf("read application %s: %w", application, err)
	}
	rows := [][]string{{"CONDITION", "STATUS", "REASON", "MESSAGE"}}
	for _, c := range app.Status.Conditions {
		rows = append(rows, []string{string(c.Type), string(c.Status), c.Reason, c.Message})
	}
	d.table(rows...)
	rows = [][]string{{"BINDING", "USER", "SECRET", "STATE"}}
	var found []string
	for _, b := range app.Status.Bindings {
		rows = append(rows, []string{strings.TrimSuffix(b.Kind+"/"+b.Instance, "/"), b.Username, b.SecretName, b.State})
		found = append(found, strings.Join([]string{b.Kind, b.Instance, b.Project, b.Service, b.SecretName, b.State}, " "))
	}
	d.table(rows...)
	err := cmp.Or(
		expect("synchronizationState", v1.RolloutComplete, app.Status.SynchronizationState),
		expect("bindings", []string{
			"kafka  streams kafka webshop-kafka Ready",
			"opensearch products data " + d.openSearch.Name() + " webshop-opensearch Ready",
			"valkey sessions data " + d.sessions.Name() + " webshop-valkey Ready",
			"valkey cache data " + d.cache.Name() + " webshop-valkey Ready",
		}, found),
	)
	if err != nil {
		return err
	}
	d.checked("each service that was asked for has a user, recorded with its Secret")
	return nil
}

func (d *demo) users(ctx context.Context) error {
	app := &v1.AivenApplication{}
	if err := d.stage.Get(ctx, d.at(application), app); err != nil {
		return fmt.Errorf("read application %s: %w", application, err)
	}
	const basic = "-@all +@connection +@scripting +@pubsub +@transaction "
	wanted := map[*aivensim.Service]string{
		d.kafka:      "orders: readwrite, payments.*: read",
		d.openSearch: "_*: readwrite, *: readwrite",
		d.sessions:   basic + "+@write +@read",
		d.cache:      basic + "+@read",
	}
	rows := [][]string{{"USER", "RIGHTS"}}
	for _, b := range app.Status.Bindings {
		service := d.aiven.Service(b.Project, b.Service)
		users := ours(service)
		if err := expect("users of "+b.Service, []string{b.Username}, users); err != nil {
			return err
		}
		found := rights(service, b.Username)
		if err := expect("rights of "+b.Username, wanted[service], found); err != nil {
			return err
		}
		rows = append(rows, []string{b.Username, strings.TrimPrefix(found, basic)})
	}
	d.table(rows...)
	d.checked("each service has exactly the recorded user, with exactly the rights that were asked for")
	return nil
}

// ours are the names of a service's users, less the built-in ones.
func ours(s *aivensim.Service) []string {
	names := []string{}
	for _, u := range s.Users() {
		if u.Type == "normal" {
			names = append(names, u.Username)
		}
	}
	return names
}

// rights describes what a user may do.
func rights(s *aivensim.Service, username string) string {
	var out []string
	switch s.Type() {
	case aivensim.Kafka:
		for _, e := range s.KafkaACLs() {
			if e.Username == username {
				out = append(out, e.Topic+": "+e.Permission)
			}
		}
	case aivensim.OpenSearch:
		for _, entry := range s.OpenSearchACLs().ACLs {
			if entry.Username != username {
				continue
			}
			for _, r := range entry.Rules {
				out = append(out, r.Index+": "+r.Permission)
			}
		}
	default:
		u, _ := s.User(username)
		return strings.Join(u.AccessControl.Categories, " ")
	}
	return strings.Join(out, ", ")
}
