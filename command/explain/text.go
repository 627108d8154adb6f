package explain

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Text is the explanation for people, on one screen.
func (e Explanation) Text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Secret %s/%s\n", e.Namespace, e.Name)
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s:\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("State", "%s", e.state(now))
	switch {
	case e.Owner != "":
		row("Belongs to", "application %s", e.Owner)
	case e.NotOurs != "":
		row("Belongs to", "nobody that keysmith knows: %s", e.NotOurs)
	}
	if e.Protected {
		until := "for good"
		if e.ProtectedUntil != nil {
			until = "until " + stamp(*e.ProtectedUntil)
		}
		row("Protected", "%s", until)
	}
	row("Outlook", "%s", e.Outlook)
	if e.UnusedSince != nil {
		row("Unused since", "%s (%s)", stamp(*e.UnusedSince), ago(*e.UnusedSince, now))
	}
	_ = w.Flush() // a Builder takes everything

	section(&b, "Asked for by", len(e.AskedForBy), func(w *tabwriter.Writer) {
		for _, r := range e.AskedForBy {
			owner := ""
			if r.Owner {
				owner = ", its owner"
			}
			fmt.Fprintf(w, "  application %s%s:\t%s\n", r.Application, owner, strings.Join(r.Services, ", "))
			ready := "Ready=" + r.Ready
			if r.Reason != "" {
				ready += " " + r.Reason
			}
			if r.Since != nil && !r.Since.IsZero() {
				ready += ", changed " + ago(*r.Since, now)
			}
			fmt.Fprintf(w, "  \t%s\n", ready)
			if r.ExpiresAt != "" {
				fmt.Fprintf(w, "  \tis deleted at %s\n", r.ExpiresAt)
			}
		}
	})
	section(&b, "Used by", len(e.UsedBy), func(w *tabwriter.Writer) {
		for _, u := range e.UsedBy {
			fmt.Fprintf(w, "  %s/%s\t%s\n", u.Kind, u.Name, strings.Join(u.Fields, ", "))
		}
	})
	section(&b, "Users at Aiven", len(e.Users), func(w *tabwriter.Writer) {
		for _, u := range e.Users {
			state := u.State
			if state == "" {
				state = "recorded by the Secret alone"
			}
			if u.Reason != "" {
				state += ": " + u.Reason + ": " + u.Message
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", u.Kind, strings.TrimSuffix(u.Project+"/"+u.Service, "/"), u.Username, state)
		}
	})
	section(&b, "Waits for", len(e.WaitsFor), func(w *tabwriter.Writer) {
		for _, text := range e.WaitsFor {
			fmt.Fprintf(w, "  %s\n", text)
		}
	})
	section(&b, "Last events", len(e.Events), func(w *tabwriter.Writer) {
		for _, v := range e.Events {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", ago(v.Last, now), v.Type, v.Reason, v.Object, v.Message)
		}
	})
	if len(e.NotSeen) > 0 {
		section(&b, "Not seen", len(e.NotSeen), func(w *tabwriter.Writer) {
			for _, text := range e.NotSeen {
				fmt.Fprintf(w, "  %s\n", text)
			}
		})
	}
	return b.String()
}

// section prints a titled list of n lines or more.
func section(b *strings.Builder, title string, n int, print func(*tabwriter.Writer)) {
	if n == 0 {
		fmt.Fprintf(b, "%s: none\n", title)
		return
	}
	fmt.Fprintf(b, "%s:\n", title)
	w := tabwriter.NewWriter(b, 0, 8, 2, ' ', 0)
	print(w)
	_ = w.Flush() // a Builder takes everything
}

func (e Explanation) state(now time.Time) string {
	switch e.State {
	case Present:
		return "exists, made " + ago(*e.Created, now)
	case Leaving:
		return "is being deleted, asked for " + ago(*e.DeletedSince, now)
	case Absent:
		return "does not exist"
	default:
		return "cannot be seen"
	}
}

// ago says how long ago something was, as kubectl does.
func ago(t, now time.Time) string { return duration.HumanDuration(now.Sub(t)) + " ago" }
