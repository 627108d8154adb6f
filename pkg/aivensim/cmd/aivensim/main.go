// Command aivensim runs the simulator of the Aiven API as a program.
//
//	aivensim --listen 127.0.0.1:8080 --control 127.0.0.1:8081 --token t --service dev/kafka:kafka:schema_registry
//
// It prints "listening on http://HOST:PORT" when it answers, and with --control "control on http://HOST:PORT". It stops on
// SIGTERM and SIGINT.
//
// Faults, and everything else that can be set, are actions of the control interface. They are done at the start with --do,
// or later by HTTP:
//
//	aivensim --do 'PATCH /settings {"latency":"lognormal 20ms 0.5","lag":{"userGet":"2s"},"rateLimit":{"requests":120,"per":"1m"}}' \
//	  --do 'POST /rules {"operation":"ServiceUserCreate","probability":0.1,"reset":true,"commit":true}' ...
//	curl -X POST -d '{"count":3,"answer":{"status":429,"retryAfter":{"in":"28s","as":"date"}}}' http://127.0.0.1:8081/rules
//	curl -X POST 'http://127.0.0.1:8081/state?project=dev&service=kafka&state=POWEROFF'
//
// The package aivensim lists them all at Simulator.Control.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/keysmith-io/keysmith/pkg/aivensim"
)

// grace is how long requests under way may take after the signal to stop.
const grace = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "aivensim:", err)
		os.Exit(2) //nolint:gocritic // nothing is left to stop
	}
}

// run serves until the context ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var (
		options         aivensim.Options
		listen, control string
		tokens          list
		projects        list
		services        list
		actions         list
		latency         aivensim.Latency
	)
	f := flag.NewFlagSet("aivensim", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&listen, "listen", "127.0.0.1:0", "address of the emulated API")
	f.StringVar(&control, "control", "", "address of the control interface, which needs no token; empty: none")
	f.Var(&tokens, "token", "token to accept, repeatable (default \"token\")")
	f.TextVar(&latency, "latency", aivensim.Latency{}, "time that each request waits before it is handled: "+
		"20ms, \"uniform 10ms 50ms\", \"lognormal 20ms 0.5\" (median, sigma) or \"pareto 10ms 1.5\" (least, shape)")
	f.Var(&actions, "do", "action of the control interface to do at the start, repeatable and in order: \"METHOD PATH [JSON]\", as in "+
		"'POST /rules {\"probability\":0.1,\"answer\":{\"status\":503,\"message\":\"No\"}}' or "+
		"'PATCH /settings {\"lag\":{\"userGet\":\"2s\"}}'; the JSON has the shape of the Go types")
	f.Var(&projects, "project", "project to start with, repeatable")
	f.Var(&services, "service", "service to start with, repeatable: project/name:type[:option,...]; type: kafka, opensearch or valkey; options: "+
		strings.Join(words(), ", "))
	f.Uint64Var(&options.Seed, "seed", 0, "seed of ids, passwords and faults")
	f.IntVar(&options.KeySize, "key-size", 3072, "size of RSA keys in bits")
	f.BoolVar(&options.ECDSA, "ecdsa-ca", false, "sign with ECDSA: creating a Kafka user takes a tenth of the time")
	f.IntVar(&options.UserLimit, "user-limit", 0, "users per Kafka or OpenSearch service; 0: 50, negative: no limit")
	f.BoolVar(&options.ShowSecrets, "show-secrets", false, "answer secrets to everybody, instead of to those who ask for them")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if options.KeySize < 1024 {
		return fmt.Errorf("--key-size %d: want at least 1024", options.KeySize)
	}
	if len(tokens) > 0 {
		options.Token = tokens[0]
	}
	sim := aivensim.New(options)
	for _, t := range tokens {
		sim.SetToken(t, aivensim.Token{})
	}
	for _, p := range projects {
		sim.AddProject(p)
	}
	for _, s := range services {
		if err := add(sim, s); err != nil {
			return fmt.Errorf("--service %s: %w", s, err)
		}
	}
	sim.Adjust(func(s *aivensim.Settings) { s.Latency = latency })
	for _, a := range actions {
		if err := do(sim, a); err != nil {
			return fmt.Errorf("--do: %w", err)
		}
	}
	return serve(ctx, stdout, listener{"listening", listen, sim}, listener{"control", control, sim.Control()})
}

// list is a flag that can be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

// Set implements flag.Value.
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// listener is an address and what answers there; without an address there is none.
type listener struct {
	name, address string
	handler       http.Handler
}

// serve serves until the context ends or a listener fails, and lets requests under way finish.
func serve(ctx context.Context, stdout io.Writer, listeners ...listener) error {
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		if l.address == "" {
			continue
		}
		socket, err := net.Listen("tcp", l.address)
		if err != nil {
			return err
		}
		server := &http.Server{Handler: l.handler, ReadHeaderTimeout: time.Minute}
		go func() { failed <- server.Serve(socket) }()
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
			defer cancel()
			if server.Shutdown(ctx) != nil {
				_ = server.Close()
			}
		}()
		fmt.Fprintf(stdout, "%s on http://%s\n", l.name, socket.Addr())
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// switches are the options of a service that are on or off.
var switches = []struct {
	word string
	set  func(*aivensim.ServiceConfig)
}{
	{"schema_registry", func(c *aivensim.ServiceConfig) { c.SchemaRegistry = true }},
	{"kafka_rest", func(c *aivensim.ServiceConfig) { c.KafkaREST = true }},
	{"kafka_connect", func(c *aivensim.ServiceConfig) { c.KafkaConnect = true }},
	{"sasl", func(c *aivensim.ServiceConfig) { c.SASL = true }},
	{"letsencrypt_sasl", func(c *aivensim.ServiceConfig) { c.LetsEncryptSASL = true }},
	{"no_certificate", func(c *aivensim.ServiceConfig) { c.NoCertificate = true }},
	{"no_dashboards", func(c *aivensim.ServiceConfig) { c.NoDashboards = true }},
	{"replica", func(c *aivensim.ServiceConfig) { c.Replica = true }},
	{"no_tls", func(c *aivensim.ServiceConfig) { c.NoTLS = true }},
	{"no_components", func(c *aivensim.ServiceConfig) { c.NoComponents = true }},
}

// words returns all options of a service.
func words() []string {
	out := []string{"state=STATE", "limit=USERS", "users=NUMBER", "route=ROUTE"}
	for _, s := range switches {
		out = append(out, s.word)
	}
	return out
}

// do does the action that a flag describes.
func do(sim *aivensim.Simulator, flag string) error {
	method, rest, _ := strings.Cut(strings.TrimSpace(flag), " ")
	path, body, _ := strings.Cut(strings.TrimSpace(rest), " ")
	_, err := sim.Do(aivensim.Action{Method: method, Path: path, Body: json.RawMessage(body)})
	return err
}

// add adds the service that a flag describes, and its project if that is missing. users=N fills it with N users.
func add(sim *aivensim.Simulator, flag string) error {
	where, what, _ := strings.Cut(flag, ":")
	project, name, _ := strings.Cut(where, "/")
	kind, options, _ := strings.Cut(what, ":")
	if project == "" || name == "" {
		return errors.New("want project/name:type")
	}
	c := aivensim.ServiceConfig{Type: aivensim.ServiceType(kind)}
	switch c.Type {
	case aivensim.Kafka, aivensim.OpenSearch, aivensim.PostgreSQL, aivensim.Valkey:
	default:
		return fmt.Errorf("unknown type %q", kind)
	}
	users := 0
	for option := range strings.SplitSeq(options, ",") {
		if option == "" {
			continue
		}
		if err := set(&c, &users, option); err != nil {
			return err
		}
	}
	if c.Type == aivensim.Kafka {
		sim.MakeKeys() // now, and not in the first calls that somebody measures
	}
	p := sim.Project(project)
	if p == nil {
		p = sim.AddProject(project)
	}
	s := p.AddService(name, c)
	for i := range users {
		s.AddUser(aivensim.User{Username: fmt.Sprintf("user-%05d", i)})
	}
	return nil
}

// set applies one option of a service.
func set(c *aivensim.ServiceConfig, users *int, option string) (err error) {
	word, value, _ := strings.Cut(option, "=")
	switch word {
	case "state":
		c.State = aivensim.State(value)
		if !c.State.IsKnown() {
			return fmt.Errorf("unknown state %q", value)
		}
	case "limit":
		c.UserLimit, err = strconv.Atoi(value)
	case "users":
		*users, err = strconv.Atoi(value)
	case "route":
		c.Routes = append(c.Routes, value)
	default:
		for _, s := range switches {
			if s.word == option {
				s.set(c)
				return nil
			}
		}
		return fmt.Errorf("unknown option %q", option)
	}
	return err
}
