package alert

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
)

const (
	alertsFile    = "../../keysmith/files/alerts.yaml"
	dashboardFile = "../../keysmith/files/dashboard.json"
)

// interval is the time between two samples and between two evaluations.
const interval = time.Minute

func readRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	raw, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := Rules(raw)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func load(t *testing.T, s Store, descriptions ...string) {
	t.Helper()
	for _, text := range descriptions {
		if err := s.Load(text, interval); err != nil {
			t.Fatal(err)
		}
	}
}

// firing is what fires in each minute until the end.
func firing(t *testing.T, s Store, end time.Duration) [][]Active {
	t.Helper()
	moments := make([]time.Time, int(end/interval)+1)
	for i := range moments {
		moments[i] = time.Unix(0, 0).Add(time.Duration(i) * interval)
	}
	engine, out := NewEngine(), make([][]Active, len(moments))
	rules := readRules(t)
	for i := range rules {
		active, err := engine.Evaluate(t.Context(), &rules[i], s, moments)
		if err != nil {
			t.Fatal(err)
		}
		for minute, alerts := range active {
			for _, a := range alerts {
				if a.Fires {
					out[minute] = append(out[minute], a)
				}
			}
		}
	}
	return out
}

// healthy is an operator with fifty applications that has nothing to complain of, for a day.
var healthy = []string{
	`keysmith_controller_heartbeat_timestamp_seconds{controller="keysmith-application"} 0+60x1500`,
	`keysmith_controller_heartbeat_timestamp_seconds{controller="keysmith-secret"} 0+60x1500`,
	`keysmith_controller_heartbeat_timestamp_seconds{controller="janitor"} 0+60x1500`,
	`keysmith_controller_event_latency_seconds_bucket{controller="keysmith-application",le="1"} 0+1x1500`,
	`keysmith_controller_event_latency_seconds_bucket{controller="keysmith-application",le="60"} 0+1x1500`,
	`keysmith_controller_event_latency_seconds_bucket{controller="keysmith-application",le="300"} 0+1x1500`,
	`keysmith_controller_event_latency_seconds_bucket{controller="keysmith-application",le="+Inf"} 0+1x1500`,
	`keysmith_controller_event_latency_seconds_bucket{controller="janitor",le="60"} 0x1500`,
	`keysmith_controller_event_latency_seconds_bucket{controller="janitor",le="+Inf"} 0x1500`,
	`keysmith_controller_paused_deletions{controller="keysmith-application"} 0x1500`,
	`keysmith_controller_paused_deletions{controller="keysmith-secret"} 0x1500`,
	`operatorkit_controller_errors_total{controller="janitor"} 0x1500`,
	`operatorkit_controller_last_reconciled{controller="janitor"} 0+60x1500`,
	`keysmith_aiven_token_valid{pod="a"} 1x1500`,
	`keysmith_aiven_token_valid{pod="b"} 1x1500`,
	`aivenator_aiven_latency_count{operation="ProjectList",status="200",pool=""} 0+2x1500`,
	`aivenator_aiven_latency_count{operation="ServiceUserCreate",status="200",pool="dev"} 0+10x1500`,
	`keysmith_aiven_throttled_total 0x1500`,
	`keysmith_applications{state="ready",reason="Synchronized"} 50x1500`,
	`keysmith_applications{state="new",reason=""} 0x1500`,
	`keysmith_applications{state="failed",reason="AivenFailure"} 0x1500`,
	`keysmith_applications{state="failed",reason="AivenUnauthorized"} 0x1500`,
	`keysmith_applications{state="failed",reason="LocalFailure"} 0x1500`,
	`keysmith_applications{state="waiting",reason="WaitingForService"} 0x1500`,
	`keysmith_applications{state="refused",reason="PoolNotAllowed"} 0x1500`,
	`keysmith_applications{state="paused",reason=""} 0x1500`,
	`keysmith_applications{state="deleting",reason=""} 0x1500`,
	`keysmith_cleanup_incomplete_total 0x1500`,
	`keysmith_certificate_expiry_timestamp_seconds 70848000x1500`,
	`keysmith_rotations_overdue{pod="a"} 0x1500`,
	`keysmith_rotations_overdue{pod="b"} 0x1500`,
}

const (
	never = -1
	day   = 24 * time.Hour
)

func TestAlertsFire(t *testing.T) {
	tests := map[string]struct {
		alert  string
		series []string      // beside those of a healthy operator, or in their place
		gone   []string      // metrics that there are not
		until  time.Duration // how long it is looked at; 0: a while longer than it takes
		// after is when it fires first; never.
		after   time.Duration
		summary string
	}{
		"it is down when nothing leads": {
			alert: "KeysmithDown", after: 10 * time.Minute, summary: "No keysmith works in this cluster.",
			gone: []string{"keysmith_", "operatorkit_", "aivenator_"},
		},
		"it is not down during a rollout": {
			alert: "KeysmithDown", after: never, until: 30 * time.Minute,
			gone:   []string{"keysmith_controller_heartbeat"},
			series: []string{`keysmith_controller_heartbeat_timestamp_seconds{controller="janitor"} 0 60 120 _x3 360+60x100`},
		},
		"it is stuck when a heart stops": {
			// The last beat is that of minute 10; five minutes later it is too old, for as long again.
			alert: "KeysmithStuck", after: 21 * time.Minute, summary: "Controller keysmith-secret of keysmith hangs.",
			series: []string{`keysmith_controller_heartbeat_timestamp_seconds{controller="keysmith-secret"} 0+60x10 600x100`},
		},
		"it is not stuck while the replica that led before is still remembered": {
			alert: "KeysmithStuck", after: never, until: time.Hour,
			series: []string{`keysmith_controller_heartbeat_timestamp_seconds{controller="keysmith-secret",pod="old"} 0+60x10 600x100`},
		},
		"it is slow when changes wait": {
			alert: "KeysmithSlow", after: 16 * time.Minute, summary: "keysmith is late.",
			series: []string{
				`keysmith_controller_event_latency_seconds_bucket{controller="keysmith-application",le="1"} 0x100`,
				`keysmith_controller_event_latency_seconds_bucket{controller="keysmith-application",le="60"} 0x100`,
			},
		},
		"it is not slow for one change in thirty": {
			alert: "KeysmithSlow", after: never, until: time.Hour,
			series: []string{
				`keysmith_controller_event_latency_seconds_bucket{controller="keysmith-application",le="1"} 0+29x100`,
				`keysmith_controller_event_latency_seconds_bucket{controller="keysmith-application",le="60"} 0+29x100`,
				`keysmith_controller_event_latency_seconds_bucket{controller="keysmith-application",le="300"} 0+30x100`,
				`keysmith_controller_event_latency_seconds_bucket{controller="keysmith-application",le="+Inf"} 0+30x100`,
			},
		},
		"it lacks a right to write": {
			alert: "KeysmithPermissionMissing", after: 11 * time.Minute, summary: "keysmith lacks a right in the cluster.",
			series: []string{`keysmith_controller_missing_permissions_total{controller="keysmith-application",verb="create",resource="secrets"} 1+1x100`},
		},
		"it lacks a right to watch": {
			alert: "KeysmithPermissionMissing", after: 11 * time.Minute, summary: "keysmith lacks a right in the cluster.",
			series: []string{`keysmith_watch_errors_total{kind="Pod",reason="forbidden"} 1+1x100`},
		},
		"a watch that expired takes no right": {
			alert: "KeysmithPermissionMissing", after: never, until: time.Hour,
			series: []string{`keysmith_watch_errors_total{kind="Pod",reason="expired"} 1+1x100`},
		},
		"a right that was missing once is no alert": {
			alert: "KeysmithPermissionMissing", after: never, until: time.Hour,
			series: []string{`keysmith_controller_missing_permissions_total{controller="keysmith-application",verb="create",resource="secrets"} 0x5 1x100`},
		},
		"the janitor fails in each round": {
			// The last good round is that of minute 0.
			alert: "KeysmithJanitorFailing", after: 90 * time.Minute, summary: "keysmith's janitor fails.",
			series: []string{
				`operatorkit_controller_errors_total{controller="janitor"} 0x14 1x14 2x14 3x14 4x14 5x14 6x14 7x14 8x14 9x14`,
				`operatorkit_controller_last_reconciled{controller="janitor"} 0x200`,
			},
		},
		"the janitor has failed since it was started": {
			alert: "KeysmithJanitorFailing", after: 45 * time.Minute, summary: "keysmith's janitor fails.",
			gone:   []string{"operatorkit_controller_last_reconciled"},
			series: []string{`operatorkit_controller_errors_total{controller="janitor"} 0x14 1x14 2x14 3x14 4x14 5x14`},
		},
		"the janitor fails in one round of two": {
			alert: "KeysmithJanitorFailing", after: never, until: 3 * time.Hour,
			series: []string{
				`operatorkit_controller_errors_total{controller="janitor"} 0+1x300`,
				`operatorkit_controller_last_reconciled{controller="janitor"} 0x29 1800x29 3600x29 5400x29 7200x29 9000x100`,
			},
		},
		"the janitor rests for long where its period is long": {
			alert: "KeysmithJanitorFailing", after: never, until: 10 * time.Hour,
			series: []string{`operatorkit_controller_last_reconciled{controller="janitor"} 0x600`},
		},
		"the token is refused to one replica": {
			alert: "KeysmithAivenTokenRefused", after: 15 * time.Minute, summary: "Aiven refuses keysmith's token.",
			series: []string{
				`keysmith_aiven_token_valid{pod="b"} 1x9 0x100`,
				`keysmith_applications{state="failed",reason="AivenUnauthorized"} 0x9 50x100`,
			},
		},
		"the API cannot be reached": {
			alert: "KeysmithAivenUnreachable", after: 11 * time.Minute, summary: "The Aiven API fails.",
			gone:   []string{"aivenator_aiven_latency_count"},
			series: []string{`aivenator_aiven_latency_count{operation="ProjectList",status="error",pool=""} 1+2x100`},
		},
		"the API cannot be reached from the start": {
			alert: "KeysmithAivenUnreachable", after: 13 * time.Minute, summary: "The Aiven API fails.",
			gone: []string{"aivenator_aiven_latency_count", "aivenator_secrets", "keysmith_applications"},
			series: []string{
				`aivenator_aiven_latency_count{operation="ProjectList",status="error",pool=""} _x2 1+2x100`,
				`keysmith_applications{state="new",reason=""} 50x100`,
			},
		},
		"the API is back after three minutes": {
			alert: "KeysmithAivenUnreachable", after: never, until: time.Hour,
			gone: []string{"aivenator_aiven_latency_count"},
			series: []string{
				`aivenator_aiven_latency_count{operation="ProjectList",status="error",pool=""} 1+2x3 7x100`,
				`aivenator_aiven_latency_count{operation="ProjectList",status="200",pool=""} _x3 1+2x100`,
			},
		},
		"the API fails for one project": {
			alert: "KeysmithAivenUnreachable", after: 11 * time.Minute, summary: "The Aiven API fails for project dev.",
			series: []string{
				`aivenator_aiven_latency_count{operation="ServiceUserCreate",status="200",pool="dev"} 0x100`,
				`aivenator_aiven_latency_count{operation="ServiceUserCreate",status="503",pool="dev"} 0+4x100`,
				`aivenator_aiven_latency_count{operation="ServiceGet",status="200",pool="dev"} 0+1x100`,
			},
		},
		"a call in three fails": {
			alert: "KeysmithAivenUnreachable", after: never, until: time.Hour,
			series: []string{`aivenator_aiven_latency_count{operation="ServiceUserCreate",status="503",pool="dev"} 0+5x100`},
		},
		"what is not found or not allowed is an answer": {
			alert: "KeysmithAivenUnreachable", after: never, until: time.Hour,
			series: []string{
				`aivenator_aiven_latency_count{operation="ServiceUserDelete",status="404",pool="dev"} 0+50x100`,
				`aivenator_aiven_latency_count{operation="ServiceUserCreate",status="409",pool="dev"} 0+50x100`,
			},
		},
		"it is throttled all the time": {
			alert: "KeysmithAivenThrottled", after: 61 * time.Minute, summary: "Aiven allows keysmith too few calls.",
			series: []string{`keysmith_aiven_throttled_total 0+1x200`},
		},
		"it is throttled for half an hour": {
			alert: "KeysmithAivenThrottled", after: never, until: 3 * time.Hour,
			series: []string{`keysmith_aiven_throttled_total 0+1x30 30x200`},
		},
		"many applications fail": {
			alert: "KeysmithManyApplicationsFailing", after: 15 * time.Minute, until: 20 * time.Minute,
			summary: "More than a tenth of all AivenApplications fail.",
			series: []string{
				`keysmith_applications{state="failed",reason="AivenFailure"} 4x100`,
				`keysmith_applications{state="failed",reason="LocalFailure"} 2x100`,
			},
		},
		"four applications are not many": {
			alert: "KeysmithManyApplicationsFailing", after: never, until: 25 * time.Minute,
			series: []string{
				`keysmith_applications{state="ready",reason="Synchronized"} 0x100`,
				`keysmith_applications{state="failed",reason="AivenFailure"} 4x100`,
			},
		},
		"five of hundred applications are not many": {
			alert: "KeysmithManyApplicationsFailing", after: never, until: 25 * time.Minute,
			series: []string{
				`keysmith_applications{state="ready",reason="Synchronized"} 95x100`,
				`keysmith_applications{state="failed",reason="AivenFailure"} 5x100`,
			},
		},
		"one application fails": {
			alert: "KeysmithApplicationsFailing", after: 30 * time.Minute, summary: "AivenApplications fail with LocalFailure.",
			series: []string{`keysmith_applications{state="failed",reason="LocalFailure"} 1x100`},
		},
		"an application fails now and then": {
			alert: "KeysmithApplicationsFailing", after: never, until: 3 * time.Hour,
			series: []string{`keysmith_applications{state="failed",reason="LocalFailure"} 1x20 0x1 1x20 0x1 1x20 0x1 1x20 0x200`},
		},
		"an application waits": {
			alert: "KeysmithApplicationsWaiting", after: 2 * time.Hour, summary: "AivenApplications wait with WaitingForService.",
			series: []string{`keysmith_applications{state="waiting",reason="WaitingForService"} 1x200`},
		},
		"an application is refused": {
			alert: "KeysmithApplicationsRefused", after: time.Hour, summary: "AivenApplications are refused with PoolNotAllowed.",
			series: []string{`keysmith_applications{state="refused",reason="PoolNotAllowed"} 20x100`},
		},
		"paused applications are nobody's business": {
			alert: "KeysmithApplicationsWaiting", after: never, until: 3 * time.Hour,
			series: []string{`keysmith_applications{state="paused",reason=""} 20x200`},
		},
		"a Secret does not go": {
			// It was deleted at minute 1.
			alert: "KeysmithDeletionsStuck", after: 37 * time.Minute, summary: "Deleted Secrets stay.",
			series: []string{
				`operatorkit_controller_deletion_timestamp{controller="keysmith-secret",kind="Secret",name="a",namespace="x"} _ 60x100`,
				`operatorkit_controller_deletion_timestamp{controller="keysmith-secret",kind="Secret",name="b",namespace="x"} _ 60x100`,
			},
		},
		"an application does not go": {
			alert: "KeysmithDeletionsStuck", after: 37 * time.Minute, summary: "Deleted AivenApplications stay.",
			series: []string{
				`operatorkit_controller_deletion_timestamp{controller="keysmith-application",kind="AivenApplication",name="a",namespace="x"} _ 60x100`,
				`keysmith_applications{state="deleting",reason=""} 1x100`,
			},
		},
		"another is stuck beside a paused one": {
			alert: "KeysmithDeletionsStuck", after: 37 * time.Minute, summary: "Deleted Secrets stay.",
			series: []string{
				`operatorkit_controller_deletion_timestamp{controller="keysmith-secret",kind="Secret",name="a",namespace="x"} _ 60x100`,
				`operatorkit_controller_deletion_timestamp{controller="keysmith-secret",kind="Secret",name="b",namespace="x"} _ 60x100`,
				`keysmith_controller_paused_deletions{controller="keysmith-secret"} 1x100`,
			},
		},
		"a deletion that is paused is not stuck": {
			alert: "KeysmithDeletionsStuck", after: never, until: 3 * time.Hour,
			series: []string{
				`operatorkit_controller_deletion_timestamp{controller="keysmith-secret",kind="Secret",name="a",namespace="x"} _ 60x200`,
				`keysmith_controller_paused_deletions{controller="keysmith-secret"} 1x200`,
			},
		},
		"a deletion that takes minutes is not stuck": {
			alert: "KeysmithDeletionsStuck", after: never, until: 3 * time.Hour,
			series: []string{`operatorkit_controller_deletion_timestamp{controller="keysmith-secret",kind="Secret",name="a",namespace="x"} _ 60x29`},
		},
		"what another operatorkit operator deletes is its own": {
			alert: "KeysmithDeletionsStuck", after: never, until: 3 * time.Hour,
			series: []string{`operatorkit_controller_deletion_timestamp{controller="cluster",kind="Cluster",name="a",namespace="x"} _ 60x200`},
		},
		"a pause was forgotten": {
			alert: "KeysmithDeletionsPaused", after: day, summary: "Deletions wait because somebody paused them.",
			series: []string{`keysmith_controller_paused_deletions{controller="keysmith-secret"} 1x1500`},
		},
		"a rotation is overdue": {
			alert: "KeysmithRotationsOverdue", after: time.Hour, summary: "Users are not replaced in time.",
			series: []string{`keysmith_rotations_overdue{pod="a"} 1x100`},
		},
		"rotations are a little late, again and again": {
			alert: "KeysmithRotationsOverdue", after: never, until: 3 * time.Hour,
			series: []string{`keysmith_rotations_overdue{pod="a"} 1x50 0 1x50 0 1x50 0x100`},
		},
		"a certificate was not renewed": {
			alert: "KeysmithCertificateExpires", after: 2*time.Hour + time.Minute, summary: "A certificate in a Secret has not been renewed.",
			series: []string{`keysmith_certificate_expiry_timestamp_seconds 1213200x1500`}, // two weeks and an hour
		},
		"a certificate is replaced late": {
			alert: "KeysmithCertificateExpires", after: never, until: 3 * time.Hour,
			series: []string{`keysmith_certificate_expiry_timestamp_seconds 0x30 70848000x200`},
		},
		"no Secret has a certificate": {
			alert: "KeysmithCertificateExpires", after: never, until: 3 * time.Hour, gone: []string{"keysmith_certificate_expiry"},
		},
		"users may be left behind": {
			alert: "KeysmithUsersLeftBehind", after: 10 * time.Minute, summary: "Users may be left at Aiven.",
			series: []string{`keysmith_cleanup_incomplete_total 0x9 1x100`},
		},
	}
	tested := map[string]bool{}
	for name, tt := range tests {
		tested[tt.alert] = tested[tt.alert] || tt.after != never
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Store{}
			load(t, s, healthy...)
			for key, of := range s {
				for _, metric := range tt.gone {
					if strings.HasPrefix(of.labels.Get("__name__"), metric) {
						delete(s, key)
					}
				}
			}
			load(t, s, tt.series...)
			until := tt.until
			if until == 0 {
				until = tt.after + 3*interval
			}
			var first time.Duration = never
			others := map[string]bool{}
			for i, alerts := range firing(t, s, until) {
				for _, a := range alerts {
					switch {
					case a.Rule.Alert != tt.alert:
						others[a.Rule.Alert] = true
					case first == never:
						first = time.Duration(i) * interval
						if a.Summary != tt.summary {
							t.Errorf("it says %q, want %q", a.Summary, tt.summary)
						}
						if strings.Contains(a.Text, "<no value>") || strings.Contains(a.Text, "  ") {
							t.Errorf("the description has a gap: %q", a.Text)
						}
						t.Log(a.Text)
					}
				}
			}
			if first != tt.after {
				t.Errorf("%s fires after %s, want %s", tt.alert, first, tt.after)
			}
			if len(others) > 0 {
				t.Errorf("others fire too: %v", others)
			}
		})
	}
	for _, rule := range readRules(t) {
		if !tested[rule.Alert] {
			t.Errorf("%s is not tested", rule.Alert)
		}
	}
}

func TestNothingFiresWhereAllIsWell(t *testing.T) {
	s := Store{}
	load(t, s, healthy...)
	for i, alerts := range firing(t, s, 3*time.Hour) {
		for _, a := range alerts {
			t.Errorf("%s%s fires after %d minutes: %s", a.Rule.Alert, a.Labels, i, a.Text)
		}
	}
}

// What each alert must say, for whoever is woken by it.
func TestAlertsAreForPeople(t *testing.T) {
	severities := map[string]bool{"critical": true, "warning": true, "info": true}
	for _, rule := range readRules(t) {
		if !severities[rule.Labels["severity"]] || len(rule.Labels) != 1 {
			t.Errorf("%s: want one label, a severity, got %v", rule.Alert, rule.Labels)
		}
		if want := "https://github.com/keysmith-io/keysmith/blob/main/docs/runbook.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", rule.Alert, rule.Annotations["runbook_url"], want)
		}
		for _, name := range []string{"summary", "description"} {
			if !strings.HasSuffix(rule.Annotations[name], ".") {
				t.Errorf("%s: %s is no sentence: %q", rule.Alert, name, rule.Annotations[name])
			}
		}
	}
}
