// Package project says what this program is. The linker sets version and commit.
package project

// Name is the program's name.
const Name = "keysmith"

var (
	version = "dev"
	commit  = "unknown"
)

// Version is the release, "dev" where none was set.
func Version() string { return version }

// Commit is the commit it was built from, "unknown" where none was set.
func Commit() string { return commit }
