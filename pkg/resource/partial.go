package resource

import "errors"

// Partial says that a part of the scope failed and the rest is worth going on with: the slice goes on, and ends with
// err, unless a later error replaces it. The outcome is that of err. Which part the following resources leave out is
// the scope's affair, and so is to remember all that failed. Partial(nil) is nil.
func Partial(err error) error {
	if err == nil {
		return nil
	}
	return &partial{err: err}
}

// IsPartial tells whether the slice goes on after err. An error with several causes is not partial, whatever they are.
func IsPartial(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if _, ok := err.(*partial); ok { //nolint:errorlint // errors.As would look into joined errors
			return true
		}
	}
	return false
}

type partial struct{ err error }

func (p *partial) Error() string { return p.err.Error() }

func (p *partial) Unwrap() error { return p.err }
