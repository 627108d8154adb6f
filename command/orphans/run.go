package orphans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/aiven"
)

// ErrFound says that there are orphans.
var ErrFound = errors.New("there are orphans")

// Aiven is the part of the API that is used here; the operator's steps delete.
type Aiven interface {
	Services(ctx context.Context, project string) ([]aiven.Listed, error)
	Service(ctx context.Context, ref aiven.Ref) (*aiven.Service, error)
	Invalidate(ref aiven.Ref)
}

// Options say where orphans are looked for.
type Options struct {
	Projects []string // at Aiven
	Cluster  string   // identity of the cluster there; empty: the UID of kube-system
	Gone     []string // applications, NAMESPACE/NAME, that were here once
	JSON     bool
	All      bool // list the unclear ones too
}

// Validate tells what is wrong with the options.
func (o Options) Validate() error {
	_, err := o.gone()
	return err
}

func (o Options) gone() ([]application, error) {
	var out []application
	for _, text := range o.Gone {
		namespace, name, _ := strings.Cut(text, "/")
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return nil, fmt.Errorf("--application: %q does not name an application: want NAMESPACE/NAME, such as shop/cart", text)
		}
		out = append(out, application{namespace, name})
	}
	return out, nil
}

// Report is what List finds. Its JSON is for scripts.
type Report struct {
	Cluster string    `json:"cluster"`
	Orphans []Finding `json:"orphans"`
	Unclear []Finding `json:"unclear"`
	Warning string    `json:"warning,omitempty"`

	Projects     []string `json:"projects"`
	Services     int      `json:"services"`     // that were looked at
	Users        int      `json:"users"`        // that they have
	Applications int      `json:"applications"` // of this cluster
	Secrets      int      `json:"secrets"`      // that record users
	Earlier      int      `json:"earlier"`      // of them: those of the earlier operator
}

// List prints the orphans. It changes nothing. The error is ErrFound where there are some.
func List(ctx context.Context, api Aiven, cluster client.Reader, o Options, out io.Writer) error {
	r, err := find(ctx, api, cluster, o)
	if err != nil {
		return err
	}
	if o.JSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(r)
	} else {
		_, err = io.WriteString(out, r.Text(o.All))
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if n := len(r.Orphans); n > 0 {
		return fmt.Errorf("%w: %d", ErrFound, n)
	}
	return nil
}

func find(ctx context.Context, api Aiven, cluster client.Reader, o Options) (*Report, error) {
	gone, err := o.gone()
	if err != nil {
		return nil, err
	}
	services, err := readServices(ctx, api, o.Projects) // first: see takeCensus
	if err != nil {
		return nil, err
	}
	c, err := takeCensus(ctx, cluster, o.Cluster, gone)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Cluster: c.cluster, Orphans: []Finding{}, Unclear: []Finding{}, Projects: o.Projects,
		Services: len(services), Applications: c.applications, Secrets: c.secrets, Earlier: c.earlier,
	}
	for _, s := range services {
		r.Users += len(s.Usernames())
		for _, f := range classify(s, c) {
			if f.Class == Orphan {
				r.Orphans = append(r.Orphans, f)
			} else {
				r.Unclear = append(r.Unclear, f)
			}
		}
	}
	if len(r.Orphans) > 0 || c.named > 0 {
		r.Warning = c.suspicion()
	}
	sortFindings(r.Orphans)
	sortFindings(r.Unclear)
	return r, nil
}

// readServices reads every service of the projects that keysmith can have users on. One that cannot be read ends it: an answer that leaves something out would
// be taken for all of it.
func readServices(ctx context.Context, api Aiven, projects []string) ([]*aiven.Service, error) {
	var refs []aiven.Ref
	for _, p := range projects {
		list, err := api.Services(ctx, p)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if kinds[s.Type] != "" {
				refs = append(refs, s.Ref)
			}
		}
	}
	services, errs := make([]*aiven.Service, len(refs)), make([]error, len(refs))
	var wg sync.WaitGroup
	for i, ref := range refs {
		wg.Go(func() { services[i], errs[i] = api.Service(ctx, ref) }) // the client limits how many at a time
	}
	wg.Wait()
	for i := range refs {
		if errors.Is(errs[i], aiven.ErrNotFound) { // deleted in between, with its users
			errs[i] = nil
		}
	}
	return slices.DeleteFunc(services, func(s *aiven.Service) bool { return s == nil }), errors.Join(errs...)
}

// Text is the report for people.
func (r *Report) Text(all bool) string {
	var b strings.Builder
	if r.Warning != "" {
		fmt.Fprintf(&b, "Warning: %s\n\n", r.Warning)
	}
	if len(r.Orphans) == 0 {
		fmt.Fprintf(&b, "No orphans: nothing at Aiven is known to be of this cluster (%s) without being recorded in it.\n", r.Cluster)
	} else {
		fmt.Fprintf(&b, "Orphans: users that this cluster (%s) made and that nothing in it records.\n\n", r.Cluster)
		table(&b, r.Orphans)
		fmt.Fprintf(&b, "\nTo delete them, name them, with the same flags:\n")
		for _, c := range commands(r.Orphans) {
			fmt.Fprintf(&b, "  %s\n", c)
		}
	}
	if len(r.Unclear) > 0 {
		fmt.Fprintf(&b, "\nUnclear: %d more, whose names fit the naming scheme and tell no more. Another cluster or the earlier operator may have made\n"+
			"them, and may use them", len(r.Unclear))
		if all {
			b.WriteString(".\n\n")
			table(&b, r.Unclear)
		} else {
			b.WriteString("; --all lists them.\n")
		}
	}
	fmt.Fprintf(&b, "\nLooked at %s of %s, with %s; %s and %s that record users, %d of them the earlier operator's.\n",
		count(r.Services, "service"), strings.Join(r.Projects, ", "), count(r.Users, "user"), count(r.Applications, "application"), count(r.Secrets, "Secret"), r.Earlier)
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func table(b *strings.Builder, list []Finding) {
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	fmt.Fprint(w, "KIND\tPROJECT\tSERVICE\tUSER\tMADE FOR\tMADE AT\n")
	for _, f := range list {
		of, since := "?", "?"
		if f.Class == Orphan {
			of = f.Namespace + "/" + f.Application
		}
		if f.Since != nil {
			since = f.Since.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Kind, f.Project, f.Service, f.Username, of, since)
	}
	_ = w.Flush() // a Builder takes everything
}

// commands delete the orphans of one service each.
func commands(list []Finding) []string {
	var out []string
	for i, f := range list {
		if i > 0 && list[i-1].Project == f.Project && list[i-1].Service == f.Service {
			out[len(out)-1] += " " + f.Username
			continue
		}
		out = append(out, fmt.Sprintf("keysmith orphans delete --project %s --service %s %s", f.Project, f.Service, f.Username))
	}
	return out
}
