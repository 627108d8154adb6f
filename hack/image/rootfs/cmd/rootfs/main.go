// Command rootfs writes the files of the image, less the operator, into a folder. The Dockerfile uses it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/keysmith-io/keysmith/hack/image/rootfs"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rootfs FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "rootfs: %v\n", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	for _, f := range rootfs.Files() {
		path := filepath.Join(folder, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
		if err := os.WriteFile(path, f.Data, 0o444); err != nil {
			return fmt.Errorf("write %s: %w", f.Path, err)
		}
	}
	return nil
}
