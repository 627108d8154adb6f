package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of go test -json, as "go doc test2json" describes it.
type event struct {
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
	output                  map[id]*bytes.Buffer // of what is still running
	subtests                map[id]bool          // tests that have subtests
	failures                map[id]bool          // tests and packages in which something failed
}

func newCount(out io.Writer) *count {
	return &count{out: out, output: map[id]*bytes.Buffer{}, subtests: map[id]bool{}, failures: map[id]bool{}}
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
		c.output[i] = &bytes.Buffer{}
		if e.Test != "" {
			c.subtests[i.parent()] = true
		}
	case "output":
		if b, ok := c.output[i]; ok {
			b.WriteString(e.Output)
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
	defer delete(c.output, i)
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
		c.skips = append(c.skips, i.String()+reason(c.output[i]))
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
		for _, r := range c.running(i.pkg) {
			c.print(r)
			delete(c.output, r)
		}
	}
	c.print(i)
	return true
}

// running returns the tests of a package, or of all, that have no result yet, in order.
func (c *count) running(pkg string) []id {
	var running []id
	for i := range maps.Keys(c.output) {
		if i.test != "" && (pkg == "" || i.pkg == pkg) {
			running = append(running, i)
		}
	}
	slices.SortFunc(running, func(a, b id) int { return strings.Compare(a.String(), b.String()) })
	return running
}

func (c *count) print(i id) {
	if b, ok := c.output[i]; ok {
		_, _ = b.WriteTo(c.out)
	}
}

// progress says what is still running.
func (c *count) progress() {
	names := make([]string, 0, 3)
	for _, i := range c.running("") {
		if len(names) == cap(names) {
			names = append(names, "...")
			break
		}
		names = append(names, i.String())
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
func reason(output *bytes.Buffer) string {
	if output == nil {
		return ""
	}
	for line := range strings.Lines(output.String()) {
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok = strings.Cut(text, ": "); ok {
				return ": " + strings.TrimSpace(text)
			}
		}
	}
	return ""
}
