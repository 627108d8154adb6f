package get

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// write writes files that nobody else can read into a directory that nobody else can enter. Each appears whole or not at all, in the place of one of its name.
func write(dir string, files []File, force bool) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) {
		err = check(dir, force)
	}
	if err != nil {
		return fmt.Errorf("use directory %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("use directory %s: %w", dir, err)
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	for _, f := range files {
		if err := place(root, f); err != nil {
			return fmt.Errorf("write %s to %s: %w", f.Name, dir, err)
		}
	}
	return nil
}

// check makes sure that a directory that exists may take secrets.
func check(dir string, force bool) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("it is no directory")
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("others may enter it (its mode is %#o): make it yours alone with chmod 700, or name another with --dir", info.Mode().Perm())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 && !force {
		return errors.New("it has files already: --force replaces those of the same names, and --dir names another")
	}
	return nil
}

func place(root *os.Root, f File) error {
	draft := f.Name + ".new"
	if err := root.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // what a run that was cut short left behind
	}
	file, err := root.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(f.Content)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return root.Rename(draft, f.Name)
}
