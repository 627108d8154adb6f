package ci

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stub is a program that writes down how it was called, and then runs some lines of shell.
func stub(t *testing.T, bin, name, script string) {
	t.Helper()
	script = "#!/bin/sh\necho \"" + name + " $*\" >>\"$CALLS\"\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
}

// result is what became of a script.
type result struct {
	Status int
	Stderr string
	Calls  []string
}

// script runs a script of hack from dir, a repository that has nothing but it, with stubs in the place of the programs that it calls.
func script(t *testing.T, dir, name string, stubs map[string]string, env []string, args ...string) result {
	t.Helper()
	bin, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	for program, lines := range stubs {
		stub(t, bin, program, lines)
	}
	// Nothing else can be called but what every system has.
	for _, tool := range []string{"basename", "bash", "cat", "dirname", "env", "grep", "head", "mktemp", "realpath", "rm", "sed", "sha256sum", "sh", "tail"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(dir, "hack", name)
	if err := os.MkdirAll(filepath.Dir(copied), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, []byte(read(t, "hack/"+name)), 0o700); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd := exec.Command(copied, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + bin, "CALLS=" + calls, "HOME=" + dir}, env...)
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	out := result{Status: cmd.ProcessState.ExitCode(), Stderr: stderr.String()}
	if data, err := os.ReadFile(calls); err == nil {
		out.Calls = strings.Split(strings.TrimSpace(string(data)), "\n")
	}
	return out
}

func TestIntegrationKind(t *testing.T) {
	const (
		kind = `
case "$1 $2" in
"get clusters") echo other; echo keysmith-test-2; echo "$THERE" ;;
"get kubeconfig") echo "kubeconfig of $4" ;;
esac`
		run  = `echo "$(cat "$E2E_KUBECONFIG")" FOLDER="$FOLDER" >>"$CALLS"; exit $STATUS`
		stay = "integration-kind: the cluster stays: kind delete cluster --name "
	)
	for name, tc := range map[string]struct {
		stubs map[string]string
		env   []string
		want  result
	}{
		"it creates a cluster where there is none": {
			stubs: map[string]string{"kind": kind, "make": run},
			env:   []string{"FOLDER=janitor"},
			want: result{Stderr: stay + "keysmith-test\n", Calls: []string{
				"kind get clusters",
				"kind create cluster --name keysmith-test --wait 5m",
				"kind get kubeconfig --name keysmith-test",
				"make --no-print-directory integration",
				"kubeconfig of keysmith-test FOLDER=janitor",
			}},
		},
		"it uses one that is there": {
			stubs: map[string]string{"kind": kind, "make": run},
			env:   []string{"THERE=keysmith-test"},
			want: result{Stderr: stay + "keysmith-test\n", Calls: []string{
				"kind get clusters",
				"kind get kubeconfig --name keysmith-test",
				"make --no-print-directory integration",
				"kubeconfig of keysmith-test FOLDER=",
			}},
		},
		"it takes another name and another version of Kubernetes": {
			stubs: map[string]string{"kind": kind, "make": run},
			env:   []string{"KIND_CLUSTER=mine", "KIND_IMAGE=kindest/node:v1.35.0"},
			want: result{Stderr: stay + "mine\n", Calls: []string{
				"kind get clusters",
				"kind create cluster --name mine --wait 5m --image kindest/node:v1.35.0",
				"kind get kubeconfig --name mine",
				"make --no-print-directory integration",
				"kubeconfig of mine FOLDER=",
			}},
		},
		"it fails as the tests do": {
			stubs: map[string]string{"kind": kind, "make": run},
			env:   []string{"THERE=keysmith-test", "STATUS=2"},
			want: result{Status: 2, Stderr: stay + "keysmith-test\n", Calls: []string{
				"kind get clusters",
				"kind get kubeconfig --name keysmith-test",
				"make --no-print-directory integration",
				"kubeconfig of keysmith-test FOLDER=",
			}},
		},
		"it says where to get kind": {
			want: result{Status: 1, Stderr: "integration-kind: kind is not installed: https://kind.sigs.k8s.io/docs/user/quick-start/#installation\n"},
		},
		"it says what kind needs": {
			stubs: map[string]string{"kind": "exit 1"},
			want: result{
				Status: 1,
				Stderr: "integration-kind: kind cannot list its clusters; does docker info (or podman info) answer?\n",
				Calls:  []string{"kind get clusters"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := script(t, t.TempDir(), "integration-kind.sh", tc.stubs, tc.env)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	var (
		index = "example.com/keysmith@sha256:" + strings.Repeat("a", 64)
		amd   = "sha256:" + strings.Repeat("b", 64)
		build = `
mkdir -p bin/sbom; echo image >bin/keysmith-image.tar; echo '{}' >bin/sbom/keysmith-index.spdx.json
printf '{\n  "name": "sbom-` + amd + `",\n  "packages": [\n    {\n      "name": "` + amd + `",\n    }\n  ]\n}\n' >bin/sbom/keysmith-linux-amd64.spdx.json
echo ` + index
		files = "bin/keysmith-image.tar bin/sbom/keysmith-index.spdx.json bin/sbom/keysmith-linux-amd64.spdx.json bin/SHA256SUMS bin/SHA256SUMS.sigstore.json"
		usage = "release: usage: release.sh VERSION [FILE ...], where VERSION is such as v1.0.0\n"
	)
	mkdir, err := exec.LookPath("mkdir")
	if err != nil {
		t.Fatal(err)
	}
	build = strings.ReplaceAll(build, "mkdir", mkdir)
	calls := func(tag string, create ...string) []string {
		return append(append([]string{
			"make --no-print-directory --silent image-push VERSION=" + tag,
			"cosign sign --yes " + index,
			"cosign attest --yes --type spdxjson --predicate bin/sbom/keysmith-linux-amd64.spdx.json example.com/keysmith@" + amd,
			"cosign sign-blob --yes --bundle bin/SHA256SUMS.sigstore.json bin/SHA256SUMS",
			"gh release view " + tag,
		}, create...), "gh release upload "+tag+" --clobber ROOT/keysmith-1.2.3.tgz "+files)
	}
	const there, notThere = "", `[ "$2" != view ]`
	for name, tc := range map[string]struct {
		args     []string
		gh, make string
		want     result
	}{
		"it signs what it pushed, and makes the release": {
			args: []string{"v1.2.3", "keysmith-1.2.3.tgz"}, gh: notThere, make: build,
			want: result{Calls: calls("v1.2.3", "gh release create v1.2.3 --verify-tag --title v1.2.3 --notes CHANGELOG.md says what is new.")},
		},
		"it says that a release is none to rely on yet": {
			args: []string{"v1.2.3-rc.1", "keysmith-1.2.3.tgz"}, gh: notThere, make: build,
			want: result{Calls: calls("v1.2.3-rc.1", "gh release create v1.2.3-rc.1 --verify-tag --title v1.2.3-rc.1 --notes CHANGELOG.md says what is new. --prerelease")},
		},
		"it adds to a release that is there": {
			args: []string{"v1.2.3", "keysmith-1.2.3.tgz"}, gh: there, make: build,
			want: result{Calls: calls("v1.2.3")},
		},
		"it signs nothing without a digest": {
			args: []string{"v1.2.3"}, make: "echo example.com/keysmith:1.2.3",
			want: result{
				Status: 1, Stderr: "release: make image-push said \"example.com/keysmith:1.2.3\", want the image with its digest\n",
				Calls: calls("v1.2.3")[:1],
			},
		},
		"it signs nothing if the image cannot be pushed": {
			args: []string{"v1.2.3"}, make: "echo 'push: denied' >&2; exit 1",
			want: result{Status: 1, Stderr: "push: denied\n", Calls: calls("v1.2.3")[:1]},
		},
		"it wants a version": {
			want: result{Status: 1, Stderr: usage},
		},
		"it refuses a version without its v": {
			args: []string{"1.2.3"},
			want: result{Status: 1, Stderr: usage},
		},
		"it says which file is not there": {
			args: []string{"v1.2.3", "nothing.tgz"},
			want: result{Status: 1, Stderr: "release: there is no file nothing.tgz\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			chart := filepath.Join(dir, "keysmith-1.2.3.tgz")
			if err := os.WriteFile(chart, []byte("chart"), 0o600); err != nil {
				t.Fatal(err)
			}
			got := script(t, dir, "release.sh", map[string]string{"make": tc.make, "cosign": "", "gh": tc.gh}, nil, tc.args...)
			for i := range got.Calls {
				got.Calls[i] = strings.ReplaceAll(got.Calls[i], dir, "ROOT")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if tc.want.Status != 0 {
				return
			}
			sums, err := os.ReadFile(filepath.Join(dir, "bin/SHA256SUMS"))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for line := range strings.Lines(string(sums)) {
				names = append(names, regexp.MustCompile(`^[0-9a-f]{64}  (\S+)\n$`).ReplaceAllString(line, "$1"))
			}
			want := []string{"keysmith-1.2.3.tgz", "keysmith-image.tar", "keysmith-index.spdx.json", "keysmith-linux-amd64.spdx.json"}
			if diff := cmp.Diff(want, names); diff != "" {
				t.Errorf("files with a sum (-want +got):\n%s", diff)
			}
		})
	}
}
