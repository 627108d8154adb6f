package orphans

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/aiven"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// Deletion says what is to be deleted.
type Deletion struct {
	Options
	Ref   aiven.Ref
	Users []string
	// Unclear allows users of the class of that name.
	Unclear bool
	// Confirm takes the person's answer; nil: none is asked for.
	Confirm io.Reader
}

// Delete takes the named users of a service back as the operator does: their rights first, by the same steps in the same order. It refuses all of them if one of
// them is no orphan, and looks once more whether anything records them right before.
func Delete(ctx context.Context, api Aiven, steps []resource.Interface, cluster client.Reader, d Deletion, out io.Writer) error {
	gone, err := d.gone()
	if err != nil {
		return err
	}
	look := func() ([]Finding, error) {
		service, err := api.Service(ctx, d.Ref) // first: see takeCensus
		if err != nil {
			return nil, err
		}
		if kinds[service.Type] == "" {
			return nil, fmt.Errorf("service %s is of type %s, on which keysmith makes no users", d.Ref, service.Type)
		}
		c, err := takeCensus(ctx, cluster, d.Cluster, gone)
		if err != nil {
			return nil, err
		}
		return d.choose(service, c)
	}
	chosen, err := look()
	if err != nil {
		return err
	}
	var b strings.Builder
	table(&b, chosen)
	fmt.Fprint(out, b.String())
	if d.Confirm != nil {
		fmt.Fprintf(out, "\nDelete %s at Aiven, with their rights? Whatever uses them stops working. Type yes: ", count(len(chosen), "user"))
		answer, err := bufio.NewReader(d.Confirm).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the answer: %w", err)
		}
		if strings.TrimSpace(answer) != "yes" {
			return errors.New("nothing was deleted: the answer was not yes")
		}
		api.Invalidate(d.Ref) // the answer may have taken long
		if chosen, err = look(); err != nil {
			return err
		}
	}
	var errs []error
	for _, f := range chosen {
		if err := remove(ctx, steps, f); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(out, "deleted %s\n", f.Username)
	}
	return errors.Join(errs...)
}

// choose finds the named users among those of the service, or says why one of them is not to be touched.
func (d Deletion) choose(service *aiven.Service, c *census) ([]Finding, error) {
	findings := classify(service, c)
	var out []Finding
	for _, name := range d.Users {
		i := slices.IndexFunc(findings, func(f Finding) bool { return f.Username == name })
		u, exists := service.User(name)
		refuse := func(why string) error {
			return fmt.Errorf("nothing was deleted: user %q of %s %s", name, d.Ref, why)
		}
		switch where := c.recorder(kinds[service.Type], d.Ref, name); {
		case !exists:
			return nil, refuse("does not exist")
		case u.Type == "primary":
			return nil, refuse("is built in")
		case where != "":
			return nil, refuse("is no orphan: " + where + " records it")
		case i < 0:
			return nil, refuse("has no name that keysmith makes")
		case findings[i].Class == Unclear && !d.Unclear:
			return nil, refuse("fits the naming scheme, but nothing proves that this cluster made it: another cluster, or the earlier operator, may use it. If you know better, add --unclear")
		case !slices.Contains(out, findings[i]):
			out = append(out, findings[i])
		}
	}
	if why := c.suspicion(); why != "" && !d.Unclear {
		return nil, errors.New("nothing was deleted: " + why)
	}
	return out, nil
}

// remove runs the operator's steps backwards over one user.
func remove(ctx context.Context, steps []resource.Interface, f Finding) error {
	set := &binding.Set{
		Namespace: f.Namespace, Application: f.Application,
		Bindings: []*binding.Binding{{
			Kind: f.Kind, Ref: aiven.Ref{Project: f.Project, Service: f.Service}, Username: f.Username, Resumed: true,
		}},
	}
	ctx = resource.WithScope(ctx, set)
	for _, step := range slices.Backward(steps) {
		if err := step.EnsureDeleted(ctx, nil); err != nil {
			return err
		}
	}
	return set.Err()
}
