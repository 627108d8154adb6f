package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keysmith-io/keysmith/hack/image/rootfs"
)

// instruction is a line of a Dockerfile.
type instruction struct{ name, args string }

// lastStage are the instructions after the last FROM, and that FROM.
func lastStage(t *testing.T, path string) []instruction {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(string(data), "")
	text = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, "")
	var stage []instruction
	for line := range strings.Lines(text) {
		name, args, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		if name == "FROM" {
			stage = nil
		}
		stage = append(stage, instruction{name, args})
	}
	return stage
}

// The image of the Dockerfile cannot be built in a test, since that takes a daemon and a registry; but all that its last stage says is compared.
func TestDockerfileMakesTheSameImage(t *testing.T) {
	index, _ := archived(t)
	for arch, image := range images(t, index) {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{}
		var got []instruction
		for _, i := range lastStage(t, "../../Dockerfile") {
			if i.name != "LABEL" {
				got = append(got, i)
				continue
			}
			for _, m := range regexp.MustCompile(`(\S+)="([^"]*)"`).FindAllStringSubmatch(i.args, -1) {
				labels[m[1]] = m[2]
			}
		}
		entrypoint, err := json.Marshal(config.Config.Entrypoint)
		if err != nil {
			t.Fatal(err)
		}
		want := []instruction{
			{"FROM", "scratch"},
			{"ARG", "VERSION=dev COMMIT=unknown"},
			{"COPY", "--from=build /rootfs/ /"},
			{"COPY", "--from=build --chmod=0555 /src/bin/keysmith " + config.Config.Entrypoint[0]},
			{"USER", rootfs.User},
			{"ENTRYPOINT", string(entrypoint)},
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(instruction{})); diff != "" {
			t.Errorf("%s: last stage of the Dockerfile (-want +got):\n%s", arch, diff)
		}
		wantLabels := options{version: "$VERSION", commit: "$COMMIT"}.labels()
		delete(wantLabels, "org.opencontainers.image.created") // what a daemon builds has no fixed time
		if diff := cmp.Diff(wantLabels, labels); diff != "" {
			t.Errorf("%s: labels of the Dockerfile (-want +got):\n%s", arch, diff)
		}
	}
}
