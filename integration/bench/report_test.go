package main

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantilesOf(t *testing.T) {
	times := func(n int) []time.Duration {
		var out []time.Duration
		for i := n; i > 0; i-- {
			out = append(out, time.Duration(i)*time.Second)
		}
		return out
	}
	for name, tc := range map[string]struct {
		times []time.Duration
		want  *quantiles
	}{
		"it takes a single one": {times(1), &quantiles{1, 1, 1, 1}},
		"it takes a few":        {times(3), &quantiles{1, 2, 3, 3}},
		"it takes many":         {times(200), &quantiles{1, 100, 190, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, quantilesOf(tc.times)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestNewPhase(t *testing.T) {
	before := sample{
		aiven: map[string]int{"ServiceGet": 5, "ProjectList": 1}, writes: 3, bytes: 100,
		kubernetes: map[string]int{"list secrets": 7}, cpu: 1,
	}
	after := sample{
		aiven: map[string]int{"ServiceGet": 5, "ProjectList": 2, "ServiceUserCreate": 3}, writes: 6, bytes: 1100,
		kubernetes: map[string]int{"list secrets": 8, "create secrets": 2, "patch secrets": 4}, cpu: 3.5, memory: 40,
	}
	want := phase{Name: "part", Seconds: 1.5, CPU: 2.5, Memory: 40, PeakMemory: 42}
	want.Aiven.Calls = map[string]int{"ProjectList": 1, "ServiceUserCreate": 3}
	want.Aiven.Total, want.Aiven.PerApplication, want.Aiven.Writes, want.Aiven.Bytes = 4, 1.33, 3, 1000
	want.Aiven.BytesPerApplication = 333
	want.Kubernetes.Requests = map[string]int{"list secrets": 1, "create secrets": 2, "patch secrets": 4}
	want.Kubernetes.Writes, want.Kubernetes.WritesPerApplication = 6, 2
	if diff := cmp.Diff(want, newPhase("part", 1500*time.Millisecond, 3, before, after, 42)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestBytesIn(t *testing.T) {
	for name, tc := range map[string]struct {
		status string
		want   int64
	}{
		"it finds the peak":         {"Name:\tkeysmith\nVmPeak:\t 1270508 kB\nVmHWM:\t   81234 kB\nVmRSS:\t   70000 kB\n", 81234 * 1024},
		"it knows none of a zombie": {"Name:\tkeysmith\nState:\tZ (zombie)\n", 0},
		"it knows none of nothing":  {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := bytesIn([]byte(tc.status), "VmHWM"); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

func TestCPUIn(t *testing.T) {
	for name, tc := range map[string]struct {
		stat string
		want float64
	}{
		"it adds up user and system time": {"7 (keysmith) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0", 3},
		"it reads past a name of spaces":  {"7 (key) smith) S 1 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0", 0.03},
		"it knows nothing of nothing":     {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cpuIn([]byte(tc.stat)); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

func TestVerb(t *testing.T) {
	for url, want := range map[string]string{
		"GET /api/v1/namespaces/a/secrets/s":                                   "get secrets",
		"GET /api/v1/secrets?labelSelector=x":                                  "list secrets",
		"GET /api/v1/secrets?watch=true":                                       "watch secrets",
		"GET /api/v1/namespaces/kube-system":                                   "get namespaces",
		"GET /api/v1/namespaces":                                               "list namespaces",
		"POST /apis/events.k8s.io/v1/namespaces/a/events":                      "create events",
		"PATCH /apis/aiven.nais.io/v1/namespaces/a/aivenapplications/x/status": "patch aivenapplications/status",
		"PUT /apis/coordination.k8s.io/v1/namespaces/a/leases/l":               "update leases",
		"DELETE /apis/aiven.nais.io/v1/namespaces/a/aivenapplications":         "deletecollection aivenapplications",
		"DELETE /api/v1/namespaces/a/secrets/s":                                "delete secrets",
		"GET /apis":                                                            "get /apis",
		"GET /apis/apps/v1":                                                    "get /apis",
		"GET /openapi/v3":                                                      "get /openapi",
	} {
		method, path, _ := strings.Cut(url, " ")
		if got := verb(httptest.NewRequest(method, path, nil)); got != want {
			t.Errorf("%s: want %q, got %q", url, want, got)
		}
	}
}

func TestChoose(t *testing.T) {
	good := settings{applications: 1, namespaces: 1, cores: 1}
	for name, tc := range map[string]struct {
		edit func(*settings)
		list string
		want []string
		err  string
	}{
		"it takes all":                          {want: []string{"burst", "resync", "restart", "janitor", "failing", "hanging", "namespace", "deletion"}},
		"it takes some, in that order":          {list: "restart,burst", want: []string{"restart", "burst"}},
		"it takes what another operator can do": {edit: func(s *settings) { s.foreign, s.binary = true, "x" }, want: []string{"burst", "restart"}},
		"it refuses what another one cannot":    {edit: func(s *settings) { s.foreign, s.binary = true, "x" }, list: "resync", err: `-phases: "resync" cannot be measured; see the package comment`},
		"it refuses another one without a path": {edit: func(s *settings) { s.foreign = true }, err: "-foreign needs -operator"},
		"it refuses no application":             {edit: func(s *settings) { s.applications = 0 }, err: "-applications, -namespaces and -cores must be at least 1"},
		"it refuses fewer Pods than none":       {edit: func(s *settings) { s.pods = -1 }, err: "-pods, -secrets and -large-secrets must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			if tc.edit != nil {
				tc.edit(&s)
			}
			err := s.choose(tc.list)
			if got := fmt.Sprint(err); err != nil && got != tc.err || err == nil && tc.err != "" {
				t.Fatalf("want error %q, got %v", tc.err, err)
			}
			if diff := cmp.Diff(tc.want, s.phases); err == nil && diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
