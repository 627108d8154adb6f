package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCount(t *testing.T) {
	tests := map[string]struct {
		lines []string
		err   error
		want  string
		ok    bool
	}{
		"counts a test through its subtests": {
			lines: []string{
				`{"Action":"start","Package":"p"}`,
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/one"}`,
				`{"Action":"output","Package":"p","Test":"TestA/one","Output":"chatter\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/one"}`,
				`{"Action":"run","Package":"p","Test":"TestA/two"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/two"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Elapsed":1.25}`,
				`{"Action":"skip","Package":"without/tests"}`,
			},
			want: "ok  \tp\t1.2s\n2 passed, 0 failed, 0 skipped\n",
			ok:   true,
		},
		"counts a failure once and shows its output": {
			lines: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/one"}`,
				`{"Action":"output","Package":"p","Test":"TestA/one","Output":"wrong\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA/one"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			err:  errors.New("exit status 1"),
			want: "FAIL\tp TestA/one\nwrong\nFAIL\tp TestA\n0 passed, 1 failed, 0 skipped\n",
		},
		"counts a test that fails after its subtests passed": {
			lines: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/one"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/one"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			err:  errors.New("exit status 1"),
			want: "FAIL\tp TestA\n1 passed, 1 failed, 0 skipped\n",
		},
		"counts a package that does not build": {
			lines: []string{
				`{"ImportPath":"p [p.test]","Action":"build-output","Output":"undefined: x\n"}`,
				`{"ImportPath":"p [p.test]","Action":"build-fail"}`,
				`{"Action":"start","Package":"p"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
				`{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			},
			err:  errors.New("exit status 1"),
			want: "undefined: x\nFAIL\tp [build failed]\n0 passed, 1 failed, 0 skipped\n",
		},
		"shows what ran when a package broke off": {
			lines: []string{
				`{"Action":"start","Package":"p"}`,
				`{"Action":"run","Package":"p","Test":"TestHangs"}`,
				`{"Action":"output","Package":"p","Test":"TestHangs","Output":"panic: test timed out\n"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			err:  errors.New("exit status 1"),
			want: "panic: test timed out\nFAIL\tp\n0 passed, 1 failed, 0 skipped\n",
		},
		"lists skipped tests with their reason before the count": {
			lines: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:9: needs keytool\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want: "ok  \tp\t0.0s\nSKIP\tp TestA: needs keytool\n0 passed, 0 failed, 1 skipped\n",
			ok:   true,
		},
		"counts a command that fails without a test": {
			lines: []string{"no etcd here"},
			err:   errors.New("run make: exit status 2"),
			want:  "no etcd here\nFAIL\trun make: exit status 2\n0 passed, 1 failed, 0 skipped\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			c := newCount(&out)
			for _, l := range tt.lines {
				c.add([]byte(l + "\n"))
			}
			ok := c.finish(tt.err)
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			if ok != tt.ok {
				t.Errorf("ok = %t, want %t", ok, tt.ok)
			}
		})
	}
}

func TestProgressNamesWhatRunsNowTheLongestFirst(t *testing.T) {
	at := func(second int, action, test string) string {
		return fmt.Sprintf(`{"Time":"2030-01-01T12:00:%02dZ","Action":%q,"Package":"p","Test":%q}`, second, action, test)
	}
	tests := map[string]struct {
		lines []string
		want  string // of what is running
	}{
		"with nothing": {lines: []string{at(0, "start", "")}},
		"the longest":  {lines: []string{at(5, "run", "TestA"), at(0, "run", "TestZ")}, want: "p TestZ (50s), p TestA (45s)"},
		"not what waits for its turn": {
			lines: []string{at(0, "run", "TestA"), at(0, "pause", "TestA"), at(9, "run", "TestB")}, want: "p TestB (41s)",
		},
		"from when its turn came": {
			lines: []string{at(0, "run", "TestA"), at(0, "pause", "TestA"), at(5, "run", "TestB"), at(30, "cont", "TestA")}, want: "p TestB (45s), p TestA (20s)",
		},
		"not what waits for subtests": {
			lines: []string{at(0, "run", "TestA"), at(1, "run", "TestA/one"), at(2, "run", "TestA/one/deep")}, want: "p TestA/one/deep (48s)",
		},
		"what has not let its subtests begin": {
			lines: []string{at(0, "run", "TestA"), at(1, "run", "TestA/one"), at(1, "pause", "TestA/one")}, want: "p TestA (50s)",
		},
		"not what has ended, or broke off": {
			lines: []string{
				at(0, "run", "TestA"), at(1, "pass", "TestA"), at(1, "run", "TestB"), at(1, "run", "TestC"), at(1, "pause", "TestC"), at(2, "fail", ""), at(3, "run", "TestD"),
			}, want: "p TestD (47s)",
		},
		"no more than three": {
			lines: []string{at(3, "run", "TestA"), at(2, "run", "TestB"), at(1, "run", "TestC"), at(0, "run", "TestD")}, want: "p TestD (50s), p TestC (49s), p TestB (48s), ...",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			c := newCount(&out)
			for _, l := range tt.lines {
				c.add([]byte(l + "\n"))
			}
			c.progress(time.Date(2030, 1, 1, 12, 0, 50, 0, time.UTC))
			_, got, _ := strings.Cut(out.String(), "running: ")
			if diff := cmp.Diff(tt.want, strings.TrimSpace(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun(t *testing.T) {
	var out strings.Builder
	c := newCount(&out)
	err := run([]string{"sh", "-c", `printf '{"Action":"pass","Package":"p","Test":"TestA"}\nlast'; exit 3`}, c)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error = %v, want exit status 3", err)
	}
	if c.passed != 1 || out.String() != "last" {
		t.Errorf("passed = %d, output %q, want 1 and %q", c.passed, out.String(), "last")
	}
}
