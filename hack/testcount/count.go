package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// event is one line of go test -json, as "go doc test2json" describes it.
type event struct {
	Time       time.Time
	Action     string
	Package    string
	Test       string
	Elapsed    float64
	Output     string
	ImportPath string // of build-output and build-fail
}

// id names a test; a package has no test.
type id struct{ pkg, test string }

func (i id) String() string { return strings.TrimSpace(i.pkg + " " + i.test) }

// parent returns the test that the subtest i belongs to, or else its package.
func (i id) parent() id {
	if n := strings.LastIndexByte(i.test, '/'); n >= 0 {
		return id{i.pkg, i.test[:n]}
	}
	return id{pkg: i.pkg}
}

// count adds up the tests of any number of runs. A test that has subtests counts through
// them alone, unless it failed and none of them did. The same goes for a package, which
// fails without a test when it does not build, panics or runs out of time.
type count struct {
	out                     io.Writer
	passed, failed, skipped int
	skips                   []string
	unfinished              map[id]*unfinished
	subtests                map[id]bool // tests that have subtests
	failures                map[id]bool // tests and packages in which something failed
}

// unfinished is a test or a package that has no result yet.
type unfinished struct {
	output bytes.Buffer
	since  time.Time // when it began, or went on after it had waited
	waits  bool      // for its turn among tests that run in parallel
}

func newCount(out io.Writer) *count {
	return &count{out: out, unfinished: map[id]*unfinished{}, subtests: map[id]bool{}, failures: map[id]bool{}}
}

// add takes in a line of output and says whether it printed something. What is no event
// is printed as it is.
func (c *count) add(line []byte) bool {
	var e event
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil || e.Action == "" {
		_, _ = c.out.Write(line)
		return true
	}
	i := id{e.Package, e.Test}
	switch e.Action {
	case "run", "start":
		c.unfinished[i] = &unfinished{since: e.Time}
		if e.Test != "" {
			c.subtests[i.parent()] = true
		}
	case "pause", "cont":
		if u, ok := c.unfinished[i]; ok {
			u.since, u.waits = e.Time, e.Action == "pause"
		}
	case "output":
		if u, ok := c.unfinished[i]; ok {
			u.output.WriteString(e.Output)
		}
	case "build-output":
		_, _ = io.WriteString(c.out, e.Output)
		return true
	case "pass", "fail", "skip":
		return c.end(i, e)
	}
	return false
}

// end takes in the result of a test or a package.
func (c *count) end(i id, e event) bool {
	defer delete(c.unfinished, i)
	switch {
	case e.Action == "fail":
		return c.fail(i)
	case i.test == "" && e.Action == "skip": // no test files
		return false
	case i.test == "":
		fmt.Fprintf(c.out, "ok  \t%s\t%.1fs\n", i.pkg, e.Elapsed)
		return true
	case e.Action == "skip":
		c.skipped++
		c.skips = append(c.skips, i.String()+c.reason(i))
	case !c.subtests[i]:
		c.passed++
	}
	return false
}

// fail counts a failure where it happened first and prints the output that belongs to it.
func (c *count) fail(i id) bool {
	if !c.failures[i] {
		c.failed++
	}
	if i.test != "" {
		c.failures[i.parent()] = true
		fmt.Fprintln(c.out, "FAIL\t"+i.String())
	} else {
		// What the package was running when it broke off has no result of its own.
		broken := slices.Collect(maps.Keys(c.unfinished))
		slices.SortFunc(broken, func(a, b id) int { return strings.Compare(a.test, b.test) })
		for _, r := range broken {
			if r.pkg == i.pkg && r.test != "" {
				c.print(r)
				delete(c.unfinished, r)
			}
		}
	}
	c.print(i)
	return true
}

func (c *count) print(i id) {
	if u, ok := c.unfinished[i]; ok {
		_, _ = u.output.WriteTo(c.out)
	}
}

// running returns the tests that are at work, those first that have been the longest. One that waits for a subtest is not, nor is one that waits for its
// turn.
func (c *count) running() []id {
	busy := map[id]bool{} // tests with a subtest at work
	for i, u := range c.unfinished {
		for ; !u.waits && i.test != ""; i = i.parent() {
			busy[i.parent()] = true
		}
	}
	var running []id
	for i, u := range c.unfinished {
		if i.test != "" && !u.waits && !busy[i] {
			running = append(running, i)
		}
	}
	slices.SortFunc(running, func(a, b id) int {
		return cmp.Or(c.unfinished[a].since.Compare(c.unfinished[b].since), strings.Compare(a.String(), b.String()))
	})
	return running
}

// progress says what is running, and for how long.
func (c *count) progress(now time.Time) {
	names := make([]string, 0, 3)
	for _, i := range c.running() {
		if len(names) == cap(names) {
			names = append(names, "...")
			break
		}
		names = append(names, fmt.Sprintf("%s (%s)", i, now.Sub(c.unfinished[i].since).Round(time.Second)))
	}
	fmt.Fprintf(c.out, "... %d passed so far, running: %s\n", c.passed, strings.Join(names, ", "))
}

// finish lists what was skipped, prints the count and says whether all is well. An error
// of the command is a failure of its own if no test accounts for it.
func (c *count) finish(err error) bool {
	if err != nil && c.failed == 0 {
		c.failed++
		fmt.Fprintf(c.out, "FAIL\t%v\n", err)
	}
	for _, s := range c.skips {
		fmt.Fprintln(c.out, "SKIP\t"+s)
	}
	fmt.Fprintf(c.out, "%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	return c.failed == 0
}

// reason returns what a test said when it skipped itself, as ": <text>".
func (c *count) reason(i id) string {
	u, ok := c.unfinished[i]
	if !ok {
		return ""
	}
	for line := range strings.Lines(u.output.String()) {
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok = strings.Cut(text, ": "); ok {
				return ": " + strings.TrimSpace(text)
			}
		}
	}
	return ""
}
