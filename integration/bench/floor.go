package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorflag "github.com/keysmith-io/keysmith/flag"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
)

const (
	// floorACLs is how many OpenSearch users share one write of the ACL document.
	floorACLs = 10
	// secrets is how many an application has.
	secrets = 3
	// floorSecret is about the size of a Secret with certificate, key and stores.
	floorSecret = 8 << 10
)

// floor makes, without an operator, only the calls that nobody can avoid, and returns how long that takes from the first application made to the
// last one ready. At Aiven: a read of each service, a POST for each user and each topic right, a write of the ACL document for every ten users. At the API
// server, for each application: its finalizer, a look whether each Secret's name is free, for who does not look makes users for a Secret that is somebody
// else's, the names in its status before anything is made, three Secrets, and its status at last. It computes nothing. It works on a project of its own,
// with as much at the same time as the operator by its defaults.
type floor struct {
	*bench
	kube  client.Client
	http  *http.Client
	slots chan struct{}

	mu      sync.Mutex
	pending map[string]int // OpenSearch users since the last write, by service
}

func (b *bench) measureFloor(ctx context.Context) (time.Duration, error) {
	kube, err := client.New(b.gateway.config, client.Options{Scheme: b.stage.Scheme()})
	if err != nil {
		return 0, fmt.Errorf("connect through the gateway: %w", err)
	}
	var operator operatorflag.Flags // by their defaults
	operator.Bind(pflag.NewFlagSet("", pflag.ContinueOnError))
	f := &floor{bench: b, kube: kube, slots: make(chan struct{}, operator.AivenParallel), pending: map[string]int{}, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: operator.AivenParallel, MaxConnsPerHost: operator.AivenParallel},
	}}
	type job struct {
		i  int
		ns int
	}
	jobs := make(chan job, b.applications)
	var wg sync.WaitGroup
	errs := make([]error, operator.Workers)
	services := []string{"kafka"}
	for n := range b.in {
		services = append(services, floorService(binding.OpenSearch, n), floorService(binding.Valkey, n))
	}
	times, err := b.provision(ctx, b.applications, func(ctx context.Context) error {
		if err := many(ctx, len(services), func(i int) error { return f.call(ctx, http.MethodGet, services[i], "", nil) }); err != nil {
			return err
		}
		for w := range operator.Workers {
			wg.Go(func() {
				for j := range jobs {
					if errs[w] == nil {
						errs[w] = f.provision(ctx, j.i, j.ns)
					}
				}
			})
		}
		made := b.eachIn(b.floorIn, func(i, ns int) error {
			if err := b.create(ctx, name(i), b.floorIn[ns]); err != nil {
				return err
			}
			jobs <- job{i, ns}
			return nil
		})
		close(jobs)
		wg.Wait()
		return errors.Join(errors.Join(errs...), made)
	})
	if err != nil {
		return 0, fmt.Errorf("measure the floor: %w", err)
	}
	f.http.CloseIdleConnections()
	return times[len(times)-1], many(ctx, len(b.floorIn), func(i int) error { return b.stage.Remove(ctx, b.floorIn[i]) })
}

// floorService is the service of a namespace, by its number, in the floor's project.
func floorService(kind binding.Kind, ns int) string { return fmt.Sprintf("%s-%d", kind, ns) }

// provision does for one application what cannot be avoided, side by side where it can.
func (f *floor) provision(ctx context.Context, i, ns int) error {
	app := &v1.AivenApplication{ObjectMeta: metav1.ObjectMeta{Namespace: f.floorIn[ns], Name: name(i)}}
	patch := func(c client.SubResourceWriter, body string) error {
		return c.Patch(ctx, app, client.RawPatch(types.MergePatchType, []byte(body)))
	}
	err := f.kube.Patch(ctx, app, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/floor"]}}`)))
	if err != nil {
		return err
	}
	err = many(ctx, secrets, func(n int) error {
		taken := &metav1.PartialObjectMetadata{}
		taken.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		anyAge := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}}
		return client.IgnoreNotFound(f.kube.Get(ctx, client.ObjectKeyFromObject(f.secret(app, n)), taken, anyAge))
	})
	if err != nil {
		return err
	}
	user := fmt.Sprintf("user_%d", i)
	record := fmt.Sprintf(`{"status":{"bindings":[{"kind":"kafka","username":%q},{"kind":"opensearch","username":%q},{"kind":"valkey","username":%q}]}}`, user, user, user)
	if err := patch(f.kube.Status(), record); err != nil {
		return err
	}
	search := floorService(binding.OpenSearch, ns)
	err = inParallel(
		func() error {
			if err := f.call(ctx, http.MethodPost, "kafka", "/user", map[string]any{"username": user}); err != nil || !f.topics {
				return err
			}
			return f.call(ctx, http.MethodPost, "kafka", "/acl", map[string]any{"username": user, "topic": "orders", "permission": "read"})
		},
		func() error {
			if err := f.call(ctx, http.MethodPost, search, "/user", map[string]any{"username": user}); err != nil {
				return err
			}
			f.mu.Lock()
			f.pending[search]++
			write := f.pending[search]%floorACLs == 1
			f.mu.Unlock()
			if !write {
				return nil
			}
			return f.call(ctx, http.MethodPut, search, "/opensearch/acl", map[string]any{"opensearch_acl_config": map[string]any{"enabled": true, "acls": []any{}}})
		},
		func() error {
			return f.call(ctx, http.MethodPost, floorService(binding.Valkey, ns), "/user", map[string]any{"username": user})
		},
	)
	if err != nil {
		return err
	}
	err = many(ctx, secrets, func(n int) error { return f.kube.Create(ctx, f.secret(app, n)) })
	if err != nil {
		return err
	}
	return patch(f.kube.Status(), `{"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":"True","reason":"Floor","message":"","lastUpdateTime":"2001-01-01T00:00:00Z"}]}}`)
}

// secret is one of the Secrets of an application.
func (f *floor) secret(app *v1.AivenApplication, n int) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: fmt.Sprintf("%s-%d", app.Name, n)}}
	s.Data = map[string][]byte{"content": bytes.Repeat([]byte{byte(n)}, floorSecret)}
	return s
}

// call makes one call to Aiven and reads the answer.
func (f *floor) call(ctx context.Context, method, service, path string, body any) error {
	f.slots <- struct{}{}
	defer func() { <-f.slots }()
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, f.simulator.url+"/v1/project/"+floorProject+"/service/"+service+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "aivenv1 "+token)
	req.Header.Set("Content-Type", "application/json")
	rsp, err := f.http.Do(req)
	if err != nil {
		return err
	}
	defer rsp.Body.Close()
	answer, err := io.ReadAll(rsp.Body)
	if err == nil && rsp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s%s: status %d: %.200s", method, service, path, rsp.StatusCode, answer)
	}
	return err
}
