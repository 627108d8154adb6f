package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/integration/operator"
	"github.com/keysmith-io/keysmith/integration/stage"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// patience is how long anything is waited for. All of it takes seconds, unless the machine is busy.
const patience = 2 * time.Minute

// demo is what the steps share.
type demo struct {
	out    io.Writer
	cancel context.CancelCauseFunc // of the context that steps get

	dir       string // for files that go at the end
	binary    string // the operator
	stage     *stage.Stage
	namespace string

	aiven                              *aivensim.Simulator
	server                             *httptest.Server
	kafka, openSearch, sessions, cache *aivensim.Service

	operator *operator.Process
	secrets  [][]byte // values that no log may hold
}

// close ends and removes all that the steps have made.
func (d *demo) close() error {
	var errs []error
	if d.operator != nil {
		d.operator.Kill()
	}
	if d.stage != nil {
		errs = append(errs, d.stage.Close())
	}
	if d.server != nil {
		d.server.Close()
	}
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}

// await waits for a condition, and shows what is still missing whenever that changes.
func (d *demo) await(ctx context.Context, what string, check func(context.Context) error) error {
	began, shown := time.Now(), ""
	err := stage.Await(ctx, patience, func(ctx context.Context) error {
		err := check(ctx)
		if err != nil && err.Error() != shown && ctx.Err() == nil {
			shown = err.Error()
			d.say("%5.1fs  not yet: %s", time.Since(began).Seconds(), shown)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wait until %s: %w", what, err)
	}
	d.say("%5.1fs  %s", time.Since(began).Seconds(), what)
	return nil
}

// say prints a line, or several.
func (d *demo) say(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n   ")
	fmt.Fprintln(d.out, "   "+text)
}

// checked prints what was found to be as expected.
func (d *demo) checked(format string, args ...any) {
	d.say("[ok] "+format, args...)
}

// table prints rows in columns, and an empty line.
func (d *demo) table(rows ...[]string) {
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, "   "+strings.Join(row, "\t"))
	}
	fmt.Fprintln(w)
	_ = w.Flush() // what cannot be printed is not missed by this program
}

// expect returns an error that says both what was expected and what was found, unless they are equal. Not for secrets.
func expect[T any](what string, want, got T) error {
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return fmt.Errorf("%s: expected %v, found %v", what, want, got)
}

// at is the key of an object in the namespace.
func (d *demo) at(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: d.namespace, Name: name}
}
