package flag

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Whatever a variable holds, it is taken or refused with an error that names it, and does not show what a secret one holds.
func FuzzEnvironment(f *testing.F) {
	for _, value := range []string{"", "1", "true", "5m", "-1", "a,b", `"a`, "1e999", "canary\x00", "\xff", "99999999999999999999"} {
		for i := range uint8(8) {
			f.Add(i*5, value)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, value string) {
		var flags Flags
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.Bind(fs)
		var names []string
		secret := map[string]bool{}
		fs.VisitAll(func(flag *pflag.Flag) {
			for _, name := range variables(flag.Name) {
				names = append(names, name)
				_, secret[name] = flag.Value.(*Token)
			}
		})
		name := names[int(which)%len(names)]
		err := Environment(fs, func(n string) (string, bool) { return value, n == name })
		if err == nil {
			return
		}
		if !strings.HasPrefix(err.Error(), "$"+name+": ") || strings.Contains(err.Error(), "%!") {
			t.Errorf("%q does not tell what is wrong", err)
		}
		if secret[name] {
			t.Errorf("%s is refused: %v", name, err)
		}
	})
}
