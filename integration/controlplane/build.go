package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// source is a published module that some of the programs are built from.
type source struct {
	module, version string
	siblings        string            // the version of the modules that are developed in the same repository
	packages        map[string]string // program -> import path
	ldflags         string
}

// sources are all modules that are built from, with Kubernetes in the given version.
func sources(version string) []source {
	number := strings.Split(version, ".")
	const stamp = " -X k8s.io/component-base/version."
	return []source{{
		module:   "go.etcd.io/etcd/server/v3",
		version:  "v" + EtcdVersion,
		siblings: "v" + EtcdVersion,
		packages: map[string]string{etcd: "go.etcd.io/etcd/server/v3"},
		ldflags:  "-s -w",
	}, {
		module:   "k8s.io/kubernetes",
		version:  "v" + version,
		siblings: "v0." + number[1] + "." + number[2], // k8s.io/api v0.37.2 is that of Kubernetes 1.37.2
		packages: map[string]string{
			apiServer:         "k8s.io/kubernetes/cmd/kube-apiserver",
			controllerManager: "k8s.io/kubernetes/cmd/kube-controller-manager",
		},
		// Kubernetes derives the features that are on from its own version.
		ldflags: "-s -w" + stamp + "gitVersion=v" + version + stamp + "gitMajor=" + number[0] + stamp + "gitMinor=" + number[1],
	}}
}

// build compiles the missing programs into work.
func build(ctx context.Context, log io.Writer, work, version string, missing []string) error {
	report(log, "building %s from the module proxy (Kubernetes %s, etcd %s) into %s: once, which takes about 7 minutes on two idle cores",
		strings.Join(missing, ", "), version, EtcdVersion, filepath.Dir(work))
	start := time.Now()
	for _, s := range sources(version) {
		if err := s.build(ctx, log, work, missing); err != nil {
			return err
		}
	}
	report(log, "built in %s", time.Since(start).Round(time.Second))
	return nil
}

// build compiles those of the missing programs that are in s into work.
func (s source) build(ctx context.Context, log io.Writer, work string, missing []string) error {
	missing = slices.DeleteFunc(slices.Clone(missing), func(name string) bool { return s.packages[name] == "" })
	if len(missing) == 0 {
		return nil
	}
	module := filepath.Join(work, "module")
	defer func() { _ = os.RemoveAll(module) }()
	if err := s.writeModule(ctx, module); err != nil {
		return fmt.Errorf("prepare to build %s: %w", s.module, err)
	}
	for _, name := range missing {
		progress := &progress{}
		stop := progress.report(log, name)
		_, err := goCommand(ctx, module, progress,
			"build", "-mod=mod", "-v", "-trimpath", "-ldflags="+s.ldflags, "-o="+filepath.Join(work, name), s.packages[name])
		stop()
		if err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

// writeModule makes dir a module that requires s. Where s itself replaces a module with a folder of its repository, which is
// not published with it, the module is taken from the proxy instead.
func (s source) writeModule(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the module: %w", err)
	}
	out, err := goCommand(ctx, dir, &progress{}, "list", "-m", "-json", s.module+"@"+s.version)
	if err != nil {
		return err
	}
	var published struct{ GoMod string }
	if err := json.Unmarshal(out, &published); err != nil {
		return fmt.Errorf("read what go says about %s: %w", s.module, err)
	}
	if out, err = goCommand(ctx, dir, &progress{}, "mod", "edit", "-json", published.GoMod); err != nil {
		return err
	}
	var upstream struct {
		Go      string
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal(out, &upstream); err != nil {
		return fmt.Errorf("read go.mod of %s: %w", s.module, err)
	}
	mod := &bytes.Buffer{}
	fmt.Fprintf(mod, "module controlplane\n\ngo %s\n\nrequire %s %s\n", upstream.Go, s.module, s.version)
	for _, r := range upstream.Replace {
		if strings.HasPrefix(r.New.Path, ".") {
			fmt.Fprintf(mod, "\nreplace %s => %s %s\n", r.Old.Path, r.Old.Path, s.siblings)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write go.mod: %w", err)
	}
	return nil
}

// goCommand runs the go command in dir and returns its output. Its messages go to progress; a failure shows the last ones.
func goCommand(ctx context.Context, dir string, progress *progress, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOTMPDIR="+dir)
	cmd.Stderr = progress
	// An interrupted go command ends the compilers that it has started; a killed one does not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("run go %s: %w", args[0], context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("run go %s: %w\n%s", args[0], err, progress.end())
	}
	return out, nil
}

// progress reads the messages of a verbose build: a line for each module downloaded and each package compiled, and others.
type progress struct {
	mu                  sync.Mutex
	partial             []byte
	last                []string // the last of the other lines, as many as an error shows
	downloads, packages int
}

// Write implements io.Writer.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = append(p.partial, b...)
	for {
		line, rest, ok := bytes.Cut(p.partial, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		p.partial = rest
		switch {
		case bytes.HasPrefix(line, []byte("go: downloading ")):
			p.downloads++
			continue
		case !bytes.ContainsAny(line, " :"):
			p.packages++
			continue
		}
		p.last = append(p.last, string(line))
		p.last = p.last[max(0, len(p.last)-20):]
	}
}

// end returns the last of the other messages.
func (p *progress) end() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.last, "\n")
}

// report writes a line about the build of a program every 15 seconds until the returned function is called.
func (p *progress) report(log io.Writer, name string) (stop func()) {
	start, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(15 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			p.mu.Lock()
			report(log, "%s, %s: %d modules downloaded, %d packages compiled", name, time.Since(start).Round(time.Second), p.downloads, p.packages)
			p.mu.Unlock()
		}
	}()
	return func() { close(done); <-ended }
}
