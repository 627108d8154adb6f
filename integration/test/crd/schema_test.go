//go:build k8srequired

package crd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestSchema applies manifests through both versions, as new objects and as changes of one. Each want is a part of the message.
func TestSchema(t *testing.T) {
	const group = "schema.keysmith.test"
	const (
		secretName = "secretName must be a valid Secret name"
		noSecret   = "secretName must name the Secret to write to"
		interval   = "spec.rotation.interval: Invalid value: "
		overlap    = "spec.rotation.overlap: Invalid value: "
		anInterval = "interval must be a duration of at least 1m, in h, m and s, such as 720h"
		anOverlap  = "overlap must be a duration of at least 1m, in h, m and s, such as 24h"
		expiresAt  = "expiresAt must be an RFC 3339 time such as 2030-01-31T12:00:00Z"
	)
	long := strings.Repeat("a", 253)
	tests := map[string]struct {
		spec   string
		v1, v2 []string // what the refusal says; nil where it is accepted
	}{
		// What manifests in the field look like.
		"accepts no spec":                        {spec: ``},
		"accepts a spec that asks for nothing":   {spec: `{}`},
		"accepts fields that nobody knows":       {spec: `{redis: [{instance: r}], influxDB: {instance: i}, userSpec: {}}`},
		"accepts one Secret for each service":    {spec: `{kafka: {pool: dev, secretName: a}, openSearch: {instance: o, access: readwrite, secretName: b}, valkey: [{instance: v, access: admin, secretName: c}, {instance: w, secretName: d}]}`},
		"accepts one Secret for all services":    {spec: `{kafka: {pool: dev, secretName: a}, openSearch: {instance: o, secretName: a}, valkey: [{instance: v, secretName: a}, {instance: w, secretName: a}]}`},
		"accepts a legacy name for all services": {spec: `{secretName: a, protected: true, kafka: {pool: dev}, openSearch: {instance: o}, valkey: [{instance: v}]}`, v2: []string{"spec.kafka.secretName: Required value", "spec.openSearch.secretName: Required value", "spec.valkey[0].secretName: Required value"}},
		"accepts an expiry":                      {spec: `{expiresAt: "2030-01-31T12:00:00Z", protected: true}`},
		"accepts an expiry with an offset":       {spec: `{expiresAt: "2030-01-31T12:00:00.5+01:00"}`},
		"accepts a whole service name":           {spec: `{openSearch: {instance: opensearch-team-a.b, secretName: a}}`},
		"accepts an empty legacy name":           {spec: `{secretName: "", kafka: {pool: dev, secretName: a}}`},

		// Secret names.
		"accepts dots in a Secret name":          {spec: `{kafka: {pool: dev, secretName: with.dots}}`},
		"accepts 253 characters":                 {spec: `{kafka: {pool: dev, secretName: ` + long + `}}`},
		"refuses 254 characters":                 both(`{kafka: {pool: dev, secretName: `+long+`a}}`, "spec.kafka.secretName: Too long"),
		"refuses capitals":                       both(`{kafka: {pool: dev, secretName: Upper}}`, "spec.kafka.secretName", secretName),
		"refuses an underscore":                  both(`{kafka: {pool: dev, secretName: under_score}}`, "spec.kafka.secretName", secretName),
		"refuses a leading dash":                 both(`{kafka: {pool: dev, secretName: -x}}`, "spec.kafka.secretName", secretName),
		"refuses a trailing dash":                both(`{openSearch: {instance: o, secretName: x-}}`, "spec.openSearch.secretName", secretName),
		"refuses letters beyond ASCII":           both(`{valkey: [{instance: v, secretName: smørebrød}]}`, "spec.valkey[0].secretName", secretName),
		"refuses a space":                        both(`{kafka: {pool: dev, secretName: a b}}`, "spec.kafka.secretName", secretName),
		"refuses a zero-width character":         both(`{kafka: {pool: dev, secretName: "a\u200bb"}}`, "spec.kafka.secretName", secretName),
		"refuses a legacy name that is none":     both(`{secretName: Upper, kafka: {pool: dev, secretName: a}}`, "spec.secretName", secretName),
		"refuses Kafka without a Secret":         {spec: `{kafka: {pool: dev}}`, v1: []string{"spec.kafka.secretName: Required value", noSecret}, v2: []string{"spec.kafka.secretName: Required value"}},
		"refuses OpenSearch without a Secret":    {spec: `{openSearch: {instance: o}}`, v1: []string{"spec.openSearch.secretName: Required value", noSecret}, v2: []string{"spec.openSearch.secretName: Required value"}},
		"refuses Valkey without a Secret":        {spec: `{valkey: [{instance: v, secretName: a}, {instance: w}]}`, v1: []string{"spec.valkey: Required value", noSecret + `, for instances ["w"]`}, v2: []string{"spec.valkey[1].secretName: Required value"}},
		"refuses an empty Secret name":           {spec: `{kafka: {pool: dev, secretName: ""}}`, v1: []string{"spec.kafka.secretName: Required value", noSecret}, v2: []string{"spec.kafka.secretName", secretName}},
		"refuses an empty legacy name as a name": {spec: `{secretName: "", kafka: {pool: dev}}`, v1: []string{"spec.kafka.secretName: Required value", noSecret}, v2: []string{"spec.kafka.secretName: Required value"}},

		// Kafka.
		"refuses no pool":                 both(`{kafka: {secretName: a}}`, "spec.kafka.pool: Required value"),
		"refuses an empty pool":           both(`{kafka: {pool: "", secretName: a}}`, "spec.kafka.pool", "pool must name the Aiven project"),
		"accepts topics and patterns":     {spec: `{kafka: {pool: dev, secretName: a, acl: [{topic: t.one, access: read}, {topic: "t-?_*", access: admin}, {topic: u}]}}`},
		"accepts an empty list of topics": {spec: `{kafka: {pool: dev, secretName: a, acl: []}}`},
		"refuses a topic that is none":    both(`{kafka: {pool: dev, secretName: a, acl: [{topic: "a b"}]}}`, "spec.kafka.acl[0].topic", "topic must be a topic name or a pattern"),
		"refuses an empty topic":          both(`{kafka: {pool: dev, secretName: a, acl: [{topic: ""}]}}`, "spec.kafka.acl[0].topic", "topic must be a topic name or a pattern"),
		"refuses one topic twice":         both(`{kafka: {pool: dev, secretName: a, acl: [{topic: t, access: read}, {topic: t, access: write}]}}`, `spec.kafka.acl[1]: Duplicate value: `, `{"topic":"t"}`),

		// Access levels.
		"accepts an empty access level":               {spec: `{openSearch: {instance: o, access: "", secretName: a}, valkey: [{instance: v, access: "", secretName: b}]}`},
		"refuses an unknown access level":             both(`{openSearch: {instance: o, access: superuser, secretName: a}}`, `spec.openSearch.access: Unsupported value: "superuser": supported values: "", "read", "write", "readwrite", "admin"`),
		"refuses an unknown access level for Valkey":  both(`{valkey: [{instance: v, access: READ, secretName: a}]}`, "spec.valkey[0].access: Unsupported value"),
		"refuses an unknown access level for a topic": both(`{kafka: {pool: dev, secretName: a, acl: [{topic: t, access: deny}]}}`, "spec.kafka.acl[0].access: Unsupported value"),

		// Instances.
		"refuses no instance":              both(`{openSearch: {secretName: a}}`, "spec.openSearch.instance: Required value"),
		"refuses an empty instance":        both(`{openSearch: {instance: "", secretName: a}}`, "spec.openSearch.instance", "instance must be the name of an instance"),
		"refuses an instance that is none": both(`{valkey: [{instance: "a/b", secretName: a}]}`, "spec.valkey[0].instance", "instance must be the name of an instance"),
		"refuses one instance twice":       both(`{valkey: [{instance: v, access: read, secretName: a}, {instance: v, access: write, secretName: b}]}`, `spec.valkey: Invalid value: `, `instances ["v", "v"] are listed more than once`),
		"refuses two instances that become one key in one Secret": both(
			`{valkey: [{instance: my-cache, secretName: a}, {instance: other, secretName: a}, {instance: my_cache, secretName: a}]}`,
			"spec.valkey", `instances ["my-cache", "my_cache"] become the same variable and must have different Secrets`),
		"refuses them also where one has the legacy name": {
			spec: `{secretName: a, valkey: [{instance: my-cache}, {instance: my.cache, secretName: a}]}`,
			v1:   []string{`instances ["my-cache", "my.cache"] become the same variable`},
			v2:   []string{"spec.valkey[0].secretName: Required value"},
		},
		"accepts them in two Secrets": {spec: `{valkey: [{instance: my-cache, secretName: a}, {instance: my_cache, secretName: b}]}`},
		"accepts a dash more":         {spec: `{valkey: [{instance: my-cache, secretName: a}, {instance: my--cache, secretName: a}]}`},

		// Expiry. What an OpenAPI date-time allows and a Go client cannot decode is refused.
		"refuses an expiry in words":     both(`{expiresAt: tomorrow}`, "spec.expiresAt", expiresAt),
		"refuses a date":                 both(`{expiresAt: "2030-01-31"}`, "spec.expiresAt", expiresAt),
		"refuses an empty expiry":        both(`{expiresAt: ""}`, "spec.expiresAt", expiresAt),
		"refuses a time without a zone":  both(`{expiresAt: "2030-01-31T12:00:00"}`, "spec.expiresAt", expiresAt),
		"refuses a day that is none":     both(`{expiresAt: "2030-02-31T12:00:00Z"}`, "spec.expiresAt", expiresAt),
		"refuses lower-case separators":  both(`{expiresAt: "2030-01-31t12:00:00z"}`, "spec.expiresAt", expiresAt),
		"refuses an offset that is none": both(`{expiresAt: "2030-01-31T12:00:00+99:99"}`, "spec.expiresAt", expiresAt),

		// Rotation.
		"accepts an interval and an overlap":   {spec: `{rotation: {interval: 24h, overlap: 1h}}`},
		"accepts an interval alone":            {spec: `{rotation: {interval: 24h}}`},
		"accepts compound durations":           {spec: `{rotation: {interval: 1h30m, overlap: 1.5m}}`},
		"refuses an equal overlap":             both(`{rotation: {interval: 1h, overlap: 1h}}`, overlap, "overlap must be shorter than interval"),
		"refuses a longer overlap":             both(`{rotation: {interval: 1h, overlap: 2h}}`, overlap, "overlap must be shorter than interval"),
		"refuses a zero interval":              both(`{rotation: {interval: 0s, overlap: 0s}}`, interval, anInterval, overlap, anOverlap),
		"refuses a negative interval":          both(`{rotation: {interval: -1h, overlap: 0s}}`, interval, anInterval, overlap, anOverlap),
		"refuses a tiny interval":              both(`{rotation: {interval: 1ms, overlap: 0s}}`, interval, anInterval, overlap, anOverlap),
		"refuses a second less than a minute":  both(`{rotation: {interval: 59s}}`, interval, anInterval),
		"refuses an interval in words":         both(`{rotation: {interval: 1 week}}`, interval, anInterval),
		"refuses an interval in days":          both(`{rotation: {interval: 7d}}`, interval, anInterval),
		"refuses an empty interval":            both(`{rotation: {interval: ""}}`, interval, anInterval),
		"refuses an interval beyond all years": both(`{rotation: {interval: 99999999999999h}}`, interval),
		"refuses a zero overlap":               both(`{rotation: {interval: 24h, overlap: 0s}}`, overlap, anOverlap),
		"refuses a negative overlap":           both(`{rotation: {interval: 24h, overlap: -1h}}`, overlap, anOverlap),
		"refuses an overlap in words":          both(`{rotation: {interval: 24h, overlap: 1 day}}`, overlap, anOverlap),
		"refuses an empty overlap":             both(`{rotation: {interval: 24h, overlap: ""}}`, overlap, anOverlap),
		"refuses no interval":                  both(`{rotation: {overlap: 1h}}`, "spec.rotation.interval: Required value"),
		"refuses a rotation that says nothing": both(`{rotation: {}}`, "spec.rotation.interval: Required value"),
	}

	c := connect(t)
	c.install(t, shipped(t, group))
	if err := c.Create(t.Context(), application(t, group, "v1", "there", "")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for version, want := range map[string][]string{"v1": tt.v1, "v2": tt.v2} {
				u := application(t, group, version, "app", tt.spec)
				patch, err := json.Marshal(map[string]any{"spec": u.Object["spec"]})
				if err != nil {
					t.Fatal(err)
				}
				if err := refused(c.Create(t.Context(), u, client.DryRunAll), want); err != nil {
					t.Errorf("%s: %v", version, err)
				}
				there := application(t, group, version, "there", "")
				if err := refused(c.Patch(t.Context(), there, client.RawPatch(types.MergePatchType, patch), client.DryRunAll), want); err != nil {
					t.Errorf("%s, as a change of one that is there: %v", version, err)
				}
			}
		})
	}
}

// both is a case in which v1 and v2 agree.
func both(spec string, want ...string) (tt struct {
	spec   string
	v1, v2 []string
}) {
	tt.spec, tt.v1, tt.v2 = spec, want, want
	return tt
}

func TestVersions(t *testing.T) {
	const group = "versions.keysmith.test"
	ctx := t.Context()
	c := connect(t)
	c.install(t, shipped(t, group))
	c.takeWarnings()

	stored := application(t, group, "v1", "app", `{secretName: legacy, kafka: {pool: dev, secretName: a, acl: []}, redis: [{instance: r}]}`)
	if err := c.Create(ctx, stored, client.FieldValidation("Ignore")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"deprecated, use v2"}, c.takeWarnings()); diff != "" {
		t.Errorf("warnings of v1 (-want +got):\n%s", diff)
	}

	// What was stored through v1 is written through v2.
	u := application(t, group, "v2", "app", "")
	if err := c.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(u.Object, true, "spec", "protected"); err != nil {
		t.Fatal(err)
	}
	if err := c.Update(ctx, u); err != nil {
		t.Fatal(err)
	}
	if w := c.takeWarnings(); len(w) > 0 {
		t.Errorf("warnings of v2: %q", w)
	}

	u = application(t, group, "v1", "app", "")
	if err := c.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"secretName": "legacy",
		"protected":  true,
		"kafka":      map[string]any{"pool": "dev", "secretName": "a", "acl": []any{}},
	}
	if diff := cmp.Diff(want, u.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestStatus writes what other and older operators may write, and what would break the
// decoding of every list.
func TestStatus(t *testing.T) {
	const group = "status.keysmith.test"
	tests := map[string]struct {
		status string
		want   []string
	}{
		"accepts unknown states and conditions": {status: `{"synchronizationState":"Invented","conditions":[{"type":"Invented","status":"Perhaps"},{"type":"Ready","status":"True","lastUpdateTime":null}]}`},
		"accepts fields that nobody knows":      {status: `{"synchronizedSecretName":"a"}`},
		"accepts an empty hash":                 {status: `{"synchronizationHash":"","synchronizationTime":null}`},
		"accepts bindings":                      {status: `{"bindings":[{"kind":"kafka","rotatesAt":"2030-01-31T12:00:00Z"},{}]}`},
		"refuses a time that is none":           {status: `{"synchronizationTime":"today"}`, want: []string{"status.synchronizationTime"}},
		"refuses a time that Go cannot decode":  {status: `{"synchronizationTime":"2030-01-31t12:00:00z"}`, want: []string{"status.synchronizationTime", "must be an RFC 3339 time"}},
		"refuses it in a condition":             {status: `{"conditions":[{"type":"Ready","status":"True","lastUpdateTime":"2030-01-31t12:00:00z"}]}`, want: []string{"status.conditions[0].lastUpdateTime"}},
	}
	ctx := t.Context()
	c := connect(t)
	c.install(t, shipped(t, group))
	u := application(t, group, "v1", "app", "")
	if err := c.Create(ctx, u); err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":`+tt.status+`}`))
			for _, version := range []string{"v1", "v2"} {
				u := application(t, group, version, "app", "")
				if err := refused(c.Status().Patch(ctx, u, patch, client.DryRunAll), tt.want); err != nil {
					t.Errorf("%s: %v", version, err)
				}
			}
		})
	}
}
