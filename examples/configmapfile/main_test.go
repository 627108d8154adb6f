package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/controller/controllertest"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "motd", Labels: map[string]string{"configmapfile.example.com/write": "true"}},
		Data:       data,
	}
}

func TestOperator(t *testing.T) {
	outside := t.TempDir()
	hello := configMap(map[string]string{"name": "motd.txt", "content": "hello"})
	paused := hello.DeepCopy()
	paused.Annotations = map[string]string{"operatorkit.giantswarm.io/paused": "true"}

	for name, tc := range map[string]struct {
		given files
		link  string // target of a link in the place of the namespace's folder
		controllertest.Case[*corev1.ConfigMap]
		want files
	}{
		"it writes the file": {
			Case: controllertest.Case[*corev1.ConfigMap]{Object: hello},
			want: files{"shop/motd/motd.txt": "hello"},
		},
		"it writes the file again, restored, without what an earlier name or a crash left": {
			given: files{"shop/motd/motd.txt": "edited", "shop/motd/old.txt": "hello", "shop/motd/..part": "hel", "shop/other/a": "b"},
			Case:  controllertest.Case[*corev1.ConfigMap]{Object: hello},
			want:  files{"shop/motd/motd.txt": "hello", "shop/other/a": "b"},
		},
		"it waits for the content, and leaves the file as it was": {
			given: files{"shop/motd/motd.txt": "hello"},
			Case: controllertest.Case[*corev1.ConfigMap]{
				Object: configMap(map[string]string{"name": "motd.txt"}),
				Want:   controllertest.Want{Outcome: resource.Waiting, After: time.Minute},
			},
			want: files{"shop/motd/motd.txt": "hello"},
		},
		"it does not write to a name that leads out of the folder": {
			Case: controllertest.Case[*corev1.ConfigMap]{
				Object: configMap(map[string]string{"name": "../motd.txt", "content": "hello"}),
				Want: controllertest.Want{Outcome: resource.Terminal, Error: "impossible file name", Events: []string{
					"Warning ImpossibleFileName a valid config key must consist of alphanumeric characters, '-', '_' or '.'" +
						" (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
				}},
			},
		},
		"it does not follow a link that leads out of the folder": {
			link: outside,
			Case: controllertest.Case[*corev1.ConfigMap]{
				Object: hello,
				Want:   controllertest.Want{Outcome: resource.Failed, Error: "resource folder: mkdirat shop/motd: path escapes from parent"},
			},
		},
		"it tries again where the folder cannot be made": {
			given: files{"shop": "in the way"},
			Case: controllertest.Case[*corev1.ConfigMap]{
				Object: hello,
				Want:   controllertest.Want{Outcome: resource.Failed, Error: "resource folder: openat shop: not a directory"},
			},
			want: files{"shop": "in the way"},
		},
		"it removes the file, then the folder, then the finalizer": {
			given: files{"shop/motd/motd.txt": "hello", "shop/other/a": "b"},
			Case: controllertest.Case[*corev1.ConfigMap]{
				Object: hello, Deleted: true,
				Want: controllertest.Want{Gone: true},
			},
			want: files{"shop/other/a": "b"},
		},
		"it lets an object go that never had a file, whatever its data": {
			Case: controllertest.Case[*corev1.ConfigMap]{
				Object: configMap(map[string]string{"name": "../motd.txt"}), Deleted: true,
				Want: controllertest.Want{Gone: true},
			},
		},
		"it keeps trying to remove the finalizer": {
			Case: controllertest.Case[*corev1.ConfigMap]{
				Object: configMap(nil), Deleted: true,
				Calls: []controllertest.Call{{Verb: "patch", Err: errors.New("boom")}},
				Want:  controllertest.Want{Outcome: resource.Failed, Error: "remove finalizer: boom"},
			},
		},
		"it keeps the file of a deleted object that is paused": {
			given: files{"shop/motd/motd.txt": "hello"},
			Case: controllertest.Case[*corev1.ConfigMap]{
				Object: paused, Deleted: true,
				Want: controllertest.Want{Events: []string{
					"Warning DeletionPaused deletion waits for pause: remove annotation operatorkit.giantswarm.io/paused to let it go on",
				}},
			},
			want: files{"shop/motd/motd.txt": "hello"},
		},
	} {
		dir := t.TempDir()
		tc.given.write(t, dir)
		if tc.link != "" {
			if err := os.Symlink(tc.link, filepath.Join(dir, "shop")); err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = root.Close() })
		tc.Want.Check = func(b *controllertest.Bed) {
			if diff := cmp.Diff(tc.want, read(b.T, dir)); diff != "" {
				b.T.Errorf("files (-want +got):\n%s", diff)
			}
		}
		controllertest.Suite[*corev1.ConfigMap]{
			Config: func(b *controllertest.Bed) controller.Config[*corev1.ConfigMap] { return configure(root, b.Registry) },
		}.Run(t, map[string]controllertest.Case[*corev1.ConfigMap]{name: tc.Case})
	}
	if diff := cmp.Diff(files(nil), read(t, outside)); diff != "" {
		t.Errorf("files outside of the folder (-want +got):\n%s", diff)
	}
}

// files are what is in a folder: contents by path. The path of an empty folder ends with a slash.
type files map[string]string

func (f files) write(t *testing.T, dir string) {
	t.Helper()
	for name, content := range f {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t testing.TB, dir string) files {
	t.Helper()
	var got files
	note := func(name, content string) {
		if got == nil {
			got = files{}
		}
		got[name] = content
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		path := filepath.Join(dir, name)
		switch {
		case e.IsDir():
			entries, err := os.ReadDir(path)
			if len(entries) == 0 {
				note(name+"/", "")
			}
			return err
		case e.Type().IsRegular():
			content, err := os.ReadFile(path)
			note(name, string(content))
			return err
		default:
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
