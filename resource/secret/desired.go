package secret

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/credstore"
	"github.com/keysmith-io/keysmith/pkg/key"
)

// content is what one binding puts into the Secret.
type content struct {
	data   map[string][]byte
	stores string // Kafka: the value of AnnotationStores
}

// set adds a text.
func (c content) set(k, text string) { c.data[k] = []byte(text) }

// content turns a binding's credentials and addresses into data keys. A component that the service lacks makes no key.
func (r *Resource) content(ctx context.Context, b *binding.Binding, current *corev1.Secret) (content, error) {
	service, err := r.services.Service(ctx, b.Ref)
	if err != nil {
		return content{}, err
	}
	switch b.Kind {
	case binding.Kafka:
		ca, err := r.services.CA(ctx, b.Ref.Project)
		if err != nil {
			return content{}, err
		}
		return kafkaContent(b, service, ca, current, r.settings.Stores)
	case binding.OpenSearch:
		return openSearchContent(b, service)
	default:
		return valkeyContent(b, service)
	}
}

func kafkaContent(b *binding.Binding, service *aiven.Service, ca string, current *corev1.Secret, settings Stores) (content, error) {
	brokers, ok := service.Component("kafka", "primary")
	if !ok {
		return content{}, noAddress(b, "kafka")
	}
	c, err := kafkaStores(b, ca, current, settings)
	if err != nil {
		return content{}, err
	}
	c.set(key.KafkaBrokers, brokers.Address())
	c.set(key.KafkaSchemaRegistryUser, b.Username)
	c.set(key.KafkaSchemaRegistryPassword, b.User.Password)
	if registry, ok := service.Component("schema_registry", ""); ok {
		c.set(key.KafkaSchemaRegistry, "https://"+registry.Address())
	}
	return c, nil
}

// made are the keys that are made from a certificate, its key, the CA and the stores' password.
var made = []string{
	key.KafkaCertificate, key.KafkaPrivateKey, key.KafkaCA, key.KafkaCredStorePassword, key.KafkaKeyStore, key.KafkaTrustStore,
}

// kafkaStores makes certificate, key, CA and the two stores. What exists is kept while it is what it should be: building a store again
// would change its bytes, and with them the Secret. The record lets the next pass see this without opening anything.
func kafkaStores(b *binding.Binding, ca string, current *corev1.Secret, settings Stores) (content, error) {
	var before map[string][]byte
	recorded := ""
	if current != nil {
		before, recorded = current.Data, current.Annotations[key.AnnotationStores]
	}
	last := parseRecord(recorded)
	password := settings.password(string(before[key.KafkaCredStorePassword]), last)
	c := content{data: map[string][]byte{}}
	for _, k := range made {
		if v, ok := before[k]; ok {
			c.data[k] = v
		}
	}
	if c.stores = settings.record(digest(b.User, ca, password, c.data)).String(); c.stores == recorded {
		return c, nil
	}
	pair, err := credstore.ParsePair(b.User.Certificate, b.User.Key)
	if err != nil {
		return content{}, bad(b, err)
	}
	bundle, err := credstore.ParseCA(ca)
	if err != nil {
		return content{}, bad(b, err)
	}
	if !last.fits(settings.Encoding) || !credstore.Matches(before[key.KafkaKeyStore], before[key.KafkaTrustStore], pair, bundle, password) {
		if c.data[key.KafkaKeyStore], err = settings.Encoding.KeyStore(pair, bundle, password); err != nil {
			return content{}, bad(b, err)
		}
		if c.data[key.KafkaTrustStore], err = settings.trustStore(ca, bundle, password); err != nil {
			return content{}, bad(b, err)
		}
	}
	c.set(key.KafkaCertificate, unlessSame(b.User.Certificate, pair.Certificate))
	c.set(key.KafkaPrivateKey, unlessSame(b.User.Key, pair.Key))
	c.set(key.KafkaCA, ca)
	c.set(key.KafkaCredStorePassword, password)
	c.stores = settings.record(digest(b.User, ca, password, c.data)).String()
	return c, nil
}

// unlessSame prefers the text as it came, which is what existing Secrets hold, to one that differs in white space alone.
func unlessSame(came, normal string) string {
	if strings.TrimSpace(came) == strings.TrimSpace(normal) {
		return came
	}
	return normal
}

func bad(b *binding.Binding, err error) error {
	return binding.WithReason(binding.ReasonBadCredentials, fmt.Errorf("publish the credentials of user %s: %w", b.Username, err))
}

// digest covers what Aiven gave and what was made from it.
func digest(u *aiven.User, ca, password string, data map[string][]byte) string {
	h := sha256.New()
	add := func(part []byte) {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	for _, text := range []string{u.Certificate, u.Key, ca, password} {
		add([]byte(text))
	}
	for _, k := range made {
		add(data[k])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func openSearchContent(b *binding.Binding, service *aiven.Service) (content, error) {
	search, ok := service.Component("opensearch", "")
	if !ok {
		return content{}, noAddress(b, "opensearch")
	}
	c := content{data: map[string][]byte{}}
	c.set(key.OpenSearchUsername, b.Username)
	c.set(key.OpenSearchPassword, b.User.Password)
	c.set(key.OpenSearchURI, "https://"+search.Address())
	c.set(key.OpenSearchHost, search.Host)
	c.set(key.OpenSearchPort, strconv.Itoa(search.Port))
	if dashboard, ok := service.Component("opensearch_dashboards", ""); ok {
		c.set(key.OpenSearchDashboardURI, "https://"+dashboard.Address())
		c.set(key.OpenSearchDashboardHost, dashboard.Host)
		c.set(key.OpenSearchDashboardPort, strconv.Itoa(dashboard.Port))
	}
	return c, nil
}

func valkeyContent(b *binding.Binding, service *aiven.Service) (content, error) {
	primary, ok := service.Component("valkey", "primary")
	if !ok {
		return content{}, noAddress(b, "valkey")
	}
	c := content{data: map[string][]byte{}}
	for _, name := range []func(key.Field, string) string{key.Valkey, key.Redis} {
		c.set(name(key.Username, b.Instance), b.Username)
		c.set(name(key.Password, b.Instance), b.User.Password)
		c.set(name(key.Host, b.Instance), primary.Host)
		c.set(name(key.Port, b.Instance), strconv.Itoa(primary.Port))
	}
	c.set(key.Valkey(key.URI, b.Instance), "valkeys://"+primary.Address())
	c.set(key.Redis(key.URI, b.Instance), "rediss://"+primary.Address())
	if replica, ok := service.Component("valkey", "replica"); ok {
		c.set(key.Valkey(key.ReplicaURI, b.Instance), "valkeys://"+replica.Address())
		c.set(key.Valkey(key.ReplicaHost, b.Instance), replica.Host)
		c.set(key.Valkey(key.ReplicaPort, b.Instance), strconv.Itoa(replica.Port))
	}
	return c, nil
}

func noAddress(b *binding.Binding, component string) error {
	return binding.Waiting(binding.ReasonWaiting, addressWait, "service %s has no address for %s yet", b.Ref.Service, component)
}

// addressWait is how often a service that has no address yet is looked at; building one takes minutes.
const addressWait = 30 * time.Second

// desired builds the Secret of a set from what exists and from what the bindings contribute. The data are keysmith's alone: keys that
// nobody asked for go. Of labels and annotations only our own are touched.
func desired(set *binding.Set, contents map[*binding.Binding]content, ca, finalizer string, now time.Time) *corev1.Secret {
	want, before := skeleton(set), map[string][]byte{}
	if set.Current != nil {
		want, before = set.Current.DeepCopy(), set.Current.Data
	}
	data := map[string][]byte{key.AivenCA: []byte(ca)}
	stores := want.Annotations[key.AnnotationStores]
	for _, b := range set.Bindings {
		c, ok := contents[b]
		if !ok {
			keep(data, before, b)
			continue
		}
		maps.Copy(data, c.data)
		if b.Kind == binding.Kafka {
			stores = c.stores
			stamp(data, before, key.KafkaSecretUpdated, now, isKafka)
		}
	}
	stamp(data, before, key.SecretUpdated, now, func(string) bool { return true })
	want.Data = data
	describe(want, set, stores, finalizer)
	return want
}

// describe sets our labels, annotations and finalizer, and leaves everybody else's.
func describe(want *corev1.Secret, set *binding.Set, stores, finalizer string) {
	annotations := maps.Clone(want.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	if _, rotated := annotations[key.AnnotationRotation]; rotated {
		delete(annotations, key.AnnotationReloader) // on other Secrets it is somebody else's
	}
	maps.DeleteFunc(annotations, func(name, _ string) bool { return ours[name] || binding.IsRecord(name) })
	maps.Copy(annotations, set.Annotations)
	maps.Copy(annotations, set.Records())
	if _, ok := want.Data[key.KafkaKeyStore]; ok {
		annotations[key.AnnotationStores] = stores
	}
	labels := maps.Clone(want.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, set.Labels)
	want.Annotations, want.Labels = annotations, labels
	if !slices.Contains(want.Finalizers, finalizer) {
		want.Finalizers = append(want.Finalizers, finalizer)
	}
}

// ours are the annotations that go when nothing sets them any more.
var ours = map[string]bool{
	key.AnnotationTimeLimit: true, key.AnnotationExpiresAt: true, key.AnnotationStores: true,
	key.AnnotationCorrelationID: true, key.Protected: true, key.AnnotationOwner: true,
}

// keep takes over what the Secret held for a binding.
func keep(data, before map[string][]byte, b *binding.Binding) {
	for k, v := range before {
		if holds(b, k) {
			data[k] = v
		}
	}
}

// holds tells whether a data key is one that a binding of this kind and instance writes.
func holds(b *binding.Binding, k string) bool {
	switch b.Kind {
	case binding.Kafka:
		return isKafka(k)
	case binding.OpenSearch:
		return strings.HasPrefix(k, "OPEN_SEARCH_")
	default:
		for _, f := range fields {
			if k == key.Valkey(f, b.Instance) || k == key.Redis(f, b.Instance) {
				return true
			}
		}
		return false
	}
}

var fields = []key.Field{
	key.Username, key.Password, key.URI, key.Host, key.Port, key.ReplicaURI, key.ReplicaHost, key.ReplicaPort,
}

func isKafka(k string) bool {
	return strings.HasPrefix(k, "KAFKA_") || k == key.KafkaKeyStore || k == key.KafkaTrustStore
}

// stamp sets the time of the last change: the one there was, unless a key in its care has changed.
func stamp(data, before map[string][]byte, name string, now time.Time, in func(string) bool) {
	part := func(m map[string][]byte) map[string][]byte {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(k string, _ []byte) bool {
			return !in(k) || k == key.SecretUpdated || k == key.KafkaSecretUpdated
		})
		return m
	}
	old, ok := before[name]
	if !ok || !maps.EqualFunc(part(data), part(before), bytes.Equal) {
		old = []byte(now.UTC().Format(time.RFC3339))
	}
	data[name] = old
}
