package v1

import (
	"testing"
	"time"
)

// What stands in expiresAt is a moment, or an error and no moment: nothing is deleted on a guess. A moment is read again as it was, in any zone.
func FuzzExpiry(f *testing.F) {
	for _, s := range []string{"", "2030-01-31T12:00:00Z", "2030-01-31T12:00:00.123+14:00", "2030-01-31 12:00", "tomorrow", "0000-01-01T00:00:00-23:59", "9999-12-31T23:59:60Z", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		spec := AivenApplicationSpec{ExpiresAt: s}
		at, err := spec.Expiry()
		if (at == nil) != (s == "" || err != nil) {
			t.Fatalf("got %v and %v", at, err)
		}
		if at == nil {
			return
		}
		spec.ExpiresAt = at.UTC().Format(time.RFC3339Nano)
		if again, err := spec.Expiry(); at.UTC().Year() >= 0 && at.UTC().Year() <= 9999 && (err != nil || !again.Equal(*at)) {
			t.Errorf("%q is %v, and then %v (%v)", s, at, again, err)
		}
	})
}

// Periods that are read are ones that can be kept: at least a minute, and the overlap ends before the next rotation.
func FuzzPeriods(f *testing.F) {
	f.Add("720h", "24h")
	f.Add("1m", "")
	f.Add("2562047h47m16.854775807s", "-1h")
	f.Add("1 week", "\xff")
	f.Fuzz(func(t *testing.T, interval, overlap string) {
		i, o, err := (&Rotation{Interval: interval, Overlap: overlap}).Periods()
		if err == nil && (i < minPeriod || o <= 0 || o >= i || overlap != "" && o < minPeriod) || err != nil && (i != 0 || o != 0) {
			t.Errorf("got %s, %s, %v", i, o, err)
		}
	})
}
