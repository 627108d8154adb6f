package aiven

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// secretTexts are ways in which a secret can stand in a text. The secret is what must not be seen of it.
func secretTexts(t *rapid.T, of string) (secret, text string) {
	word := rapid.StringMatching(`[A-Za-z0-9_-]{8,20}`).Draw(t, "secret")
	switch of {
	case "the token":
		return token, rapid.SampledFrom([]string{"", "x", "'"}).Draw(t, "before") + token
	case "a password of Aiven":
		return word, rapid.SampledFrom([]string{"AVNS_", "avns_", "Avns_"}).Draw(t, "prefix") + word
	case "a URL":
		password := word + rapid.SampledFrom([]string{"", "/", " ", "@", ":", "%2F"}).Draw(t, "odd") + word
		return word, "https://user:" + password + "@host:1/path"
	case "a word":
		said := rapid.SampledFrom([]string{"password", "Password=", "new_password: ", `"token":"`, "SECRET ", "bearer ", "Authorization: aivenv1 "}).Draw(t, "word")
		return word, said + word
	default:
		return word, "-----BEGIN " + rapid.SampledFrom([]string{"CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY"}).Draw(t, "block") + "-----\n" + word
	}
}

func checkText(t interface{ Errorf(string, ...any) }, text string) {
	if len(text) > maxText || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\u2028' || r == 0x7f }) {
		t.Errorf("%d bytes cannot be shown: %q", len(text), text)
	}
}

// No text of the API shows a secret, wherever in it that stands and whatever is around it; nor does any text of this machine show the
// token, a password of Aiven or one in a URL. What is shown is one short line.
func TestNoTextShowsASecret(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SampledFrom([]string{"the token", "a password of Aiven", "a URL", "a word", "PEM"}).Draw(t, "secret of")
		secret, text := secretTexts(t, of)
		text = rapid.String().Draw(t, "before") + text + rapid.SampledFrom([]string{"", "\xff", "\x00", "\n", strings.Repeat("ä", 600)}).Draw(t, "after")
		shown := []string{clean(text, token)}
		if of != "a word" && of != "PEM" {
			shown = append(shown, cleanLocal(text, token))
		}
		for _, s := range shown {
			checkText(t, s)
			if strings.Contains(strings.ToLower(s), strings.ToLower(secret)) {
				t.Errorf("%q shows %q", s, secret)
			}
		}
	})
}

// A 429 is obeyed as it asks, in seconds or as a date in any zone, but never for longer than five minutes.
func TestThrottlingIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asked := time.Duration(rapid.Int64Range(-1<<33, 1<<33).Draw(t, "seconds")) * time.Second
		want := min(max(asked, 0), maxThrottle)
		r := refusal{retryAfter: start.Add(asked).UTC().Format(http.TimeFormat)}
		if year := start.Add(asked).Year(); year > 0 && year < 10000 {
			if got := r.wait(start); got != want {
				t.Errorf("%q: got %s, want %s", r.retryAfter, got, want)
			}
		}
		if asked >= 0 {
			r = refusal{retryAfter: strconv.FormatInt(int64(asked/time.Second), 10), message: "try again in 7s"}
			if got := r.wait(start); got != want {
				t.Errorf("%q: got %s, want %s", r.retryAfter, got, want)
			}
		}
	})
}
