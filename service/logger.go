package service

import (
	"io"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/giantswarm/microerror"
	"github.com/giantswarm/micrologger"
	"github.com/go-logr/logr"
)

// NewLogger makes the one log of the process: JSON lines by micrologger, for our lines and for those of the libraries. Level is one
// of flag.Levels.
func NewLogger(w io.Writer, level string) logr.Logger {
	base, err := micrologger.New(micrologger.Config{IOWriter: w})
	if err != nil {
		panic(err) // it has no way to fail
	}
	return logr.New(&sink{logger: base, most: map[string]int{"error": -1, "info": 0, "debug": 1}[level]})
}

// sink writes logr's lines to micrologger. Micrologger's own sink calls every line "debug" and drops errors at the lowest verbosity.
type sink struct {
	logger micrologger.Logger
	most   int // the highest verbosity that is written; -1: errors alone
	depth  int // stack frames between a line's author and this sink
	name   string
	values []any
}

// Init is told how far away callers are.
func (s *sink) Init(info logr.RuntimeInfo) { s.depth = info.CallDepth }

// WithCallDepth is told that callers are farther away.
func (s *sink) WithCallDepth(depth int) logr.LogSink {
	out := *s
	out.depth += depth
	return &out
}

// Enabled tells whether lines of a verbosity are written.
func (s *sink) Enabled(level int) bool { return level <= s.most }

// Info writes a line.
func (s *sink) Info(level int, msg string, keysAndValues ...any) {
	severity := "info"
	if level > 0 {
		severity = "debug"
	}
	s.write(severity, msg, keysAndValues)
}

// Error writes a line about an error, with the stack of a masked one.
func (s *sink) Error(err error, msg string, keysAndValues ...any) {
	if err != nil {
		keysAndValues = append(slices.Clip(keysAndValues), "error", err.Error(), "stack", microerror.JSON(err))
	}
	s.write("error", msg, keysAndValues)
}

func (s *sink) write(severity, msg string, keysAndValues []any) {
	line := []any{"level", severity, "message", msg}
	if _, file, number, ok := runtime.Caller(s.depth + 2); ok {
		line = append(line, "caller", filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)+":"+strconv.Itoa(number))
	}
	if s.name != "" {
		line = append(line, "logger", s.name)
	}
	s.logger.Log(append(line, unique(s.values, keysAndValues)...)...)
}

// unique drops what a later value of the same key replaces: a JSON object has each key once.
func unique(lists ...[]any) []any {
	last := map[any]any{}
	for _, list := range lists {
		for i := 0; i+1 < len(list); i += 2 {
			last[list[i]] = list[i+1]
		}
	}
	var out []any
	for _, k := range slices.SortedFunc(maps.Keys(last), func(a, b any) int { return strings.Compare(text(a), text(b)) }) {
		out = append(out, k, last[k])
	}
	return out
}

func text(k any) string {
	s, _ := k.(string)
	return s
}

// WithValues adds facts to every line.
func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	out := *s
	out.values = append(slices.Clip(s.values), keysAndValues...)
	return &out
}

// WithName adds to the name of the logger.
func (s *sink) WithName(name string) logr.LogSink {
	out := *s
	out.name = strings.TrimPrefix(s.name+"."+name, ".")
	return &out
}
