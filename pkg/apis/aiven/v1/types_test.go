package v1

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestJSON decodes an object, encodes it and decodes it as the fake client and
// server-side apply do. The text must be the same after each, so that no write of the
// operator changes what a user wrote.
func TestJSON(t *testing.T) {
	tests := map[string]struct {
		in   string
		want string // "" means in
	}{
		"keeps every field": {
			in: `{"metadata":{"name":"a"},"spec":{"secretName":"s","protected":true,"expiresAt":"2030-01-31T12:00:00+01:00",` +
				`"kafka":{"pool":"dev","secretName":"k","acl":[{"topic":"t.*","access":"readwrite"},{"topic":"u"}]},` +
				`"openSearch":{"instance":"o","access":"admin","secretName":"os"},` +
				`"valkey":[{"instance":"v","access":"write","secretName":"vs"}],"rotation":{"interval":"24h","overlap":"1h"}},` +
				`"status":{"synchronizationState":"RolloutComplete","synchronizationTime":"2026-01-01T00:00:00Z","synchronizationHash":"h",` +
				`"synchronizedGeneration":1,"observedGeneration":2,` +
				`"conditions":[{"type":"Ready","status":"True","reason":"R","message":"m","lastUpdateTime":"2026-01-01T00:00:00Z"}],` +
				`"bindings":[{"kind":"valkey","instance":"v","project":"p","service":"s","secretName":"vs","username":"u","state":"x",` +
				`"reason":"R","message":"m","attempt":3,"rotatesAt":"2026-01-02T00:00:00Z"}]}}`,
		},
		"keeps an absent list of topics apart from an empty one": {
			in: `{"metadata":{"name":"a"},"spec":{"kafka":{"pool":"dev","acl":[]}},"status":{}}`,
		},
		"leaves out what is not given": {
			in: `{"metadata":{"name":"a"},"spec":{"kafka":{"pool":"dev"}},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
		},
		"decodes what no schema would accept today": {
			in: `{"metadata":{"name":"a"},"spec":{"expiresAt":"next week","openSearch":{"instance":"o","access":"superuser"},` +
				`"rotation":{"interval":"1 week","overlap":"-1h"}},"status":{"conditions":[{"type":"Invented","status":"Perhaps"}]}}`,
		},
		"ignores fields it does not know and empty times": {
			in: `{"metadata":{"name":"a"},"spec":{"redis":[{"instance":"r"}],"userSpec":{},"influxDB":null,"kafka":null},` +
				`"status":{"synchronizationTime":null,"conditions":[{"type":"Ready","status":"True","lastUpdateTime":null}]}}`,
			want: `{"metadata":{"name":"a"},"spec":{},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := parse(t, tt.want)
			if tt.want == "" {
				want = parse(t, tt.in)
			}

			var app AivenApplication
			if err := json.Unmarshal([]byte(tt.in), &app); err != nil {
				t.Fatal(err)
			}
			out, err := json.Marshal(app.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, parse(t, string(out))); diff != "" {
				t.Errorf("JSON (-want +got):\n%s", diff)
			}

			u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&app)
			if err != nil {
				t.Fatal(err)
			}
			var again AivenApplication
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u, &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(app, again); diff != "" {
				t.Errorf("unstructured (-want +got):\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T, s string) any {
	t.Helper()
	if s == "" {
		return nil
	}
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestExpiry(t *testing.T) {
	noon := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		expiresAt string
		want      *time.Time
		err       string
	}{
		"is nil when not given":         {"", nil, ""},
		"reads UTC":                     {"2030-01-31T12:00:00Z", &noon, ""},
		"reads an offset":               {"2030-01-31T13:00:00+01:00", &noon, ""},
		"refuses a date":                {"2030-01-31", nil, `read spec.expiresAt: "2030-01-31" is not an RFC 3339 time such as 2030-01-31T12:00:00Z`},
		"refuses what date-time allows": {"2030-01-31t12:00:00z", nil, `read spec.expiresAt: "2030-01-31t12:00:00z" is not an RFC 3339 time such as 2030-01-31T12:00:00Z`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := (&AivenApplicationSpec{ExpiresAt: tt.expiresAt}).Expiry()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("time (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.err, text(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPeriods(t *testing.T) {
	const interval, overlap = "read spec.rotation.interval: ", "read spec.rotation.overlap: "
	tests := map[string]struct {
		rotation          Rotation
		interval, overlap time.Duration
		err               string
	}{
		"reads both":                  {Rotation{"24h", "1h"}, 24 * time.Hour, time.Hour, ""},
		"overlaps by half by default": {Rotation{"24h", ""}, 24 * time.Hour, 12 * time.Hour, ""},
		"refuses a word":              {Rotation{"1 week", ""}, 0, 0, interval + `"1 week" is not a duration of at least 1m such as 720h`},
		"refuses no interval":         {Rotation{"", "1h"}, 0, 0, interval + `"" is not a duration of at least 1m such as 720h`},
		"refuses a tiny interval":     {Rotation{"1ms", "0s"}, 0, 0, interval + `"1ms" is not a duration of at least 1m such as 720h`},
		"refuses a negative interval": {Rotation{"-1h", "0s"}, 0, 0, interval + `"-1h" is not a duration of at least 1m such as 720h`},
		"refuses an equal overlap":    {Rotation{"1h", "1h"}, 0, 0, overlap + `"1h" is not a duration of at least 1m and shorter than the interval 1h`},
		"refuses no overlap":          {Rotation{"1h", "0s"}, 0, 0, overlap + `"0s" is not a duration of at least 1m and shorter than the interval 1h`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			interval, overlap, err := tt.rotation.Periods()
			if interval != tt.interval || overlap != tt.overlap {
				t.Errorf("periods = %s and %s, want %s and %s", interval, overlap, tt.interval, tt.overlap)
			}
			if diff := cmp.Diff(tt.err, text(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestOrDefault(t *testing.T) {
	for in, want := range map[Access]Access{"": AccessRead, AccessAdmin: AccessAdmin, "superuser": "superuser"} {
		if got := in.OrDefault(); got != want {
			t.Errorf("%q.OrDefault() = %q, want %q", in, got, want)
		}
	}
}

func TestAddToScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	kinds, _, err := s.ObjectKinds(&AivenApplication{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("aiven.nais.io/v1, Kind=AivenApplication", kinds[0].String()); diff != "" {
		t.Errorf("kind (-want +got):\n%s", diff)
	}
}
