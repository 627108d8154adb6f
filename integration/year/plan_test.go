package year

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlanIsInTheOrderOfTime(t *testing.T) {
	var p plan
	var got []string
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range []struct {
		name  string
		after time.Duration
	}{{"c", 2 * time.Hour}, {"a", time.Hour}, {"d", 2 * time.Hour}, {"e", 3 * time.Hour}, {"b", time.Hour}} {
		p.add(start.Add(e.after), func(context.Context) error {
			got = append(got, e.name)
			return nil
		})
	}
	for {
		e, ok := p.next()
		if !ok {
			break
		}
		if err := e.do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestNoFormerCertificateOutlivesItsCA(t *testing.T) {
	for _, weeks := range []int{minWeeks, 12, 26, 52, 104} {
		for seed := range uint64(20) {
			r := &run{Config: Config{Weeks: weeks}, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
			for _, after := range r.births(10) {
				at := r.began.Add(after)
				if at.Before(r.at(rotated)) && at.Add(renewal).After(r.at(retired)) {
					t.Errorf("%d weeks, seed %d: a certificate renewed at %s by the former CA has a predecessor when that CA is retired", weeks, seed, at)
				}
				if after < 0 || after > r.length() {
					t.Errorf("%d weeks, seed %d: a renewal after %s is not within the year", weeks, seed, after)
				}
			}
		}
	}
}
