package resource

import "errors"

// Partial says that a part of the scope failed and the rest is worth going on with: the slice goes on, and ends with this
// error unless a later one replaces it. Its outcome is that of err. The resources that follow leave out what failed; how they
// know is the scope's affair.
func Partial(err error) error { return &partial{err: err} }

// IsPartial tells whether the slice goes on after err.
func IsPartial(err error) bool {
	_, ok := errors.AsType[*partial](err)
	return ok
}

type partial struct{ err error }

func (p *partial) Error() string { return p.err.Error() }

func (p *partial) Unwrap() error { return p.err }
