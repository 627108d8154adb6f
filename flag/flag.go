// Package flag holds every setting of the program: its flag, its environment variables, its default, and what makes it valid.
package flag

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/keysmith-io/keysmith/pkg/credstore"
)

// Levels are the values that --log-level takes.
var Levels = []string{"debug", "info", "error"}

// Flags are the settings of the daemon. The names of fields follow those of the flags.
type Flags struct {
	AivenURL       string
	AivenToken     Token
	AivenTokenFile string
	AivenCAFile    string
	AivenTimeout   time.Duration
	AivenParallel  int
	AivenQPS       float64
	AivenBurst     int
	SnapshotAge    time.Duration

	Projects    []string
	MainProject string
	ClusterName string

	Kubeconfig          string
	KubernetesAddress   string
	KubernetesInCluster bool
	TLSCAFile           string
	TLSCertFile         string
	TLSKeyFile          string
	TLSCAData           string
	TLSCertData         string
	TLSKeyData          Token

	Namespaces              []string
	Workers                 int
	Resync                  time.Duration
	JanitorPeriod           time.Duration
	JanitorGrace            time.Duration
	StoreEncoding           string
	StorePassword           Token
	StorePasswordRandom     bool
	LeaderElection          bool
	LeaderElectionNamespace string
	LogLevel                string
	MetricsAddress          string
	HealthAddress           string
}

// earlier are the environment variables of the earlier operator that are understood too, by flag.
var earlier = map[string][]string{
	"aiven-token":  {"AIVENATOR_AIVEN_TOKEN"},
	"projects":     {"AIVENATOR_PROJECTS"},
	"main-project": {"AIVENATOR_MAIN_PROJECT"},
	"cluster-name": {"NAIS_CLUSTER_NAME"},
	"kubeconfig":   {"KUBECONFIG"},
}

// alternatives are flags of which one is given. A command line that gives one is not contradicted by a variable of another.
var alternatives = [][]string{
	{"aiven-token", "aiven-token-file"},
	{"kubeconfig", "kubernetes-address", "kubernetes-in-cluster"},
}

// Bind declares the flags of the daemon, with their defaults.
func (f *Flags) Bind(fs *pflag.FlagSet) {
	f.bindAiven(fs)
	f.bindDaemon(fs)
	describe(fs)
}

// BindAiven declares those flags alone that say where Aiven is, how to log in, and who this cluster is there. ValidateAiven validates them.
func (f *Flags) BindAiven(fs *pflag.FlagSet) {
	f.bindAiven(fs)
	describe(fs)
}

func (f *Flags) bindAiven(fs *pflag.FlagSet) {
	fs.StringVar(&f.AivenURL, "aiven-url", "https://api.aiven.io", "address of the Aiven API")
	fs.Var(&f.AivenToken, "aiven-token", "token of the Aiven API; a file or a variable keeps it out of the process list")
	fs.StringVar(&f.AivenTokenFile, "aiven-token-file", "", "file with the token of the Aiven API, read again when it changes")
	fs.StringVar(&f.AivenCAFile, "aiven-ca-file", "", "PEM file of more CAs to trust for the Aiven API")
	fs.DurationVar(&f.AivenTimeout, "aiven-timeout", 30*time.Second, "deadline of one call to the Aiven API")
	fs.IntVar(&f.AivenParallel, "aiven-parallel", 16, "calls to the Aiven API in flight at most, for each project")
	fs.Float64Var(&f.AivenQPS, "aiven-qps", 500, "calls to the Aiven API in a second at most")
	fs.IntVar(&f.AivenBurst, "aiven-burst", 2000, "calls to the Aiven API that may exceed that rate for a moment")

	fs.StringSliceVar(&f.Projects, "projects", nil, "Aiven projects whose Kafka service applications may use, separated by commas")
	fs.StringVar(&f.MainProject, "main-project", "", "Aiven project that holds OpenSearch and Valkey, and whose CA is published; default: the first of --projects")
	fs.StringVar(&f.ClusterName, "cluster-name", "", "name of this cluster, unique among those that share an Aiven project; default: the UID of namespace kube-system")
}

func (f *Flags) bindDaemon(fs *pflag.FlagSet) {
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig file")
	fs.StringVar(&f.KubernetesAddress, "kubernetes-address", "", "address of the API server, in place of a kubeconfig file")
	fs.BoolVar(&f.KubernetesInCluster, "kubernetes-in-cluster", false, "use the service account of the Pod; the default where neither kubeconfig nor address is given")
	fs.StringVar(&f.TLSCAFile, "kubernetes-tls-ca-file", "", "PEM file of the API server's CA, with --kubernetes-address")
	fs.StringVar(&f.TLSCertFile, "kubernetes-tls-cert-file", "", "PEM file of the client certificate")
	fs.StringVar(&f.TLSKeyFile, "kubernetes-tls-key-file", "", "PEM file of the client key")
	fs.StringVar(&f.TLSCAData, "kubernetes-tls-ca-data", "", "PEM of the API server's CA itself, in place of the file")
	fs.StringVar(&f.TLSCertData, "kubernetes-tls-cert-data", "", "PEM of the client certificate itself")
	fs.Var(&f.TLSKeyData, "kubernetes-tls-key-data", "PEM of the client key itself")

	f.StorePassword = "changeme"
	fs.StringSliceVar(&f.Namespaces, "namespaces", nil, "namespaces to work in, separated by commas; default: all")
	fs.DurationVar(&f.SnapshotAge, "snapshot-age", 5*time.Minute, "age at which what is known of a service is read again")
	fs.IntVar(&f.Workers, "workers", 160, "applications that are worked on at the same time, and as many Secrets")
	fs.DurationVar(&f.Resync, "resync", 15*time.Minute, "time after which an application is looked at again without a reason")
	fs.DurationVar(&f.JanitorPeriod, "janitor-period", 15*time.Minute, "time between two rounds of the janitor")
	fs.DurationVar(&f.JanitorGrace, "janitor-grace", time.Minute, "time that a Secret must have been unused before it goes")
	fs.StringVar(&f.StoreEncoding, "store-encoding", string(credstore.Modern), "encryption of the Kafka key stores: modern (AES and SHA-256, for Java from 8u301) or legacy (3DES and SHA-1)")
	fs.Var(&f.StorePassword, "store-password", "password of the Kafka key stores; the default, which is what existing applications expect, is \"changeme\"")
	fs.BoolVar(&f.StorePasswordRandom, "store-password-random", false, "give the key stores of each Secret a random password of their own, in place of --store-password")
	fs.BoolVar(&f.LeaderElection, "leader-election", true, "elect a leader among replicas")
	fs.StringVar(&f.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the lease; default: that of the Pod, outside a cluster \"default\"")
	fs.StringVar(&f.LogLevel, "log-level", "info", "one of "+strings.Join(Levels, ", "))
	fs.StringVar(&f.MetricsAddress, "metrics-address", ":8080", "address of /metrics; \"0\" turns it off")
	fs.StringVar(&f.HealthAddress, "health-address", ":8081", "address of /healthz and /readyz; \"0\" turns it off")
}

// describe adds the environment variables to what help says.
func describe(fs *pflag.FlagSet) {
	fs.VisitAll(func(flag *pflag.Flag) {
		flag.Usage += " ($" + strings.Join(variables(flag.Name), ", $") + ")"
	})
}

// variables are the environment variables of a flag, the first one that is set counts.
func variables(name string) []string {
	own := "KEYSMITH_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	return append([]string{own}, earlier[name]...)
}

// Environment sets the flags that were not given, nor an alternative to them, from environment variables.
func Environment(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var err error
	given := map[string]bool{}
	fs.VisitAll(func(flag *pflag.Flag) { given[flag.Name] = flag.Changed }) // also where another set of flags parsed it
	fs.VisitAll(func(flag *pflag.Flag) {
		if given[flag.Name] || hasAlternative(flag.Name, given) || err != nil {
			return
		}
		for _, name := range variables(flag.Name) {
			value, ok := lookup(name)
			if !ok || value == "" {
				continue
			}
			if e := fs.Set(flag.Name, value); e != nil {
				err = fmt.Errorf("$%s: %w", name, errors.Unwrap(e))
			}
			return
		}
	})
	return err
}

func hasAlternative(name string, given map[string]bool) bool {
	for _, names := range alternatives {
		if slices.Contains(names, name) && slices.ContainsFunc(names, func(n string) bool { return given[n] }) {
			return true
		}
	}
	return false
}

// ValidateAiven tells the first thing that is wrong with the flags of BindAiven, by the name of its flag.
func (f *Flags) ValidateAiven() error {
	u, err := url.Parse(f.AivenURL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return wrong("aiven-url", "must be an http or https address such as https://api.aiven.io")
	}
	if (f.AivenToken == "") == (f.AivenTokenFile == "") {
		return wrong("aiven-token-file", "either this or --aiven-token ($AIVENATOR_AIVEN_TOKEN) must be given, and not both")
	}
	if f.AivenTokenFile != "" {
		if _, err := ReadToken(f.AivenTokenFile); err != nil {
			return wrong("aiven-token-file", err.Error())
		}
	}
	f.Projects = strings.Fields(strings.Join(f.Projects, " ")) // the earlier operator's variable separates them by blanks
	if len(f.Projects) == 0 && f.MainProject == "" {
		return wrong("projects", "must name at least one Aiven project")
	}
	f.MainProject = cmp.Or(f.MainProject, append(f.Projects, "")[0])
	if f.AivenCAFile != "" {
		if pem, err := os.ReadFile(f.AivenCAFile); err != nil {
			return wrong("aiven-ca-file", err.Error())
		} else if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return wrong("aiven-ca-file", f.AivenCAFile+" holds no certificate in PEM")
		}
	}
	if f.AivenTimeout <= 0 {
		return wrong("aiven-timeout", "must be longer than nothing")
	}
	return atLeastOne(map[string]int{"aiven-parallel": f.AivenParallel, "aiven-burst": f.AivenBurst, "aiven-qps": int(f.AivenQPS)})
}

func atLeastOne(numbers map[string]int) error {
	for name, n := range numbers {
		if n < 1 {
			return wrong(name, "must be at least 1")
		}
	}
	return nil
}

// Validate tells the first thing that is wrong with the settings, by the name of its flag.
func (f *Flags) Validate() error {
	if err := f.ValidateAiven(); err != nil {
		return err
	}
	given := 0
	for _, is := range []bool{f.Kubeconfig != "", f.KubernetesAddress != "", f.KubernetesInCluster} {
		if is {
			given++
		}
	}
	if given > 1 {
		return wrong("kubeconfig", "give only one of --kubeconfig, --kubernetes-address and --kubernetes-in-cluster")
	}
	f.KubernetesInCluster = f.KubernetesInCluster || given == 0
	if f.KubernetesInCluster && os.Getenv(serviceHost) == "" {
		return wrong("kubeconfig", "this is not a Pod of a cluster: give this or --kubernetes-address")
	}
	for _, file := range []struct{ flag, path string }{
		{"kubeconfig", f.Kubeconfig}, {"kubernetes-tls-ca-file", f.TLSCAFile},
		{"kubernetes-tls-cert-file", f.TLSCertFile}, {"kubernetes-tls-key-file", f.TLSKeyFile},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.ReadFile(file.path); err != nil {
			return wrong(file.flag, err.Error())
		}
	}
	if f.Kubeconfig != "" {
		// The error may quote the file, which holds credentials.
		if _, err := clientcmd.LoadFromFile(f.Kubeconfig); err != nil {
			return wrong("kubeconfig", f.Kubeconfig+" is not a kubeconfig file")
		}
	}
	for name, address := range map[string]string{"metrics-address": f.MetricsAddress, "health-address": f.HealthAddress} {
		if !isListen(address) {
			return wrong(name, "must be an address with a port such as :8080, or 0")
		}
	}
	if !slices.Contains(Levels, f.LogLevel) {
		return wrong("log-level", fmt.Sprintf("%q is not one of %s", f.LogLevel, strings.Join(Levels, ", ")))
	}
	if !slices.Contains(credstore.Encodings, credstore.Encoding(f.StoreEncoding)) {
		return wrong("store-encoding", fmt.Sprintf("%q is not one of %s, %s", f.StoreEncoding, credstore.Modern, credstore.Legacy))
	}
	if err := credstore.CheckPassword(f.StorePassword.Reveal()); err != nil {
		return wrong("store-password", err.Error())
	}
	for name, d := range map[string]time.Duration{
		"snapshot-age": f.SnapshotAge, "resync": f.Resync, "janitor-period": f.JanitorPeriod,
	} {
		if d <= 0 {
			return wrong(name, "must be longer than nothing")
		}
	}
	if f.JanitorGrace < 0 {
		return wrong("janitor-grace", "must not be negative")
	}
	return atLeastOne(map[string]int{"workers": f.Workers})
}

// serviceHost is the variable by which a Pod knows its API server.
const serviceHost = "KUBERNETES_SERVICE_HOST"

// isListen tells whether an address can be one to listen on, or the "0" that stands for none.
func isListen(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	}
	return address == "0" || err == nil
}

func wrong(name, why string) error {
	return fmt.Errorf("--%s ($%s): %s", name, variables(name)[0], why)
}
