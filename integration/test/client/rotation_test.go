//go:build k8srequired

package client

import (
	"testing"
	"time"

	"github.com/keysmith-io/keysmith/integration/env"
	"github.com/keysmith-io/keysmith/integration/redis"
	"github.com/keysmith-io/keysmith/integration/world"
	"github.com/keysmith-io/keysmith/pkg/aivensim"
	v1 "github.com/keysmith-io/keysmith/pkg/apis/aiven/v1"
	"github.com/keysmith-io/keysmith/pkg/binding"
	"github.com/keysmith-io/keysmith/pkg/key"
)

func TestBothLoginsWorkUntilTheOverlapEnds(t *testing.T) {
	t.Parallel()
	env.Tool(t, "redis-server", "redis-server") // before there is a world
	w := world.NewTimed(t)
	redis.Serve(t, w.Sim.Project(world.Main), w.Instance(binding.Valkey, cache, aivensim.ServiceConfig{}))
	w.Start("--resync=240h", "--janitor-period=240h")
	spec := valkey(v1.AccessReadWrite, "creds")
	spec.Rotation = &v1.Rotation{Interval: "168h", Overlap: "24h"}
	w.Apply("cart", spec)
	w.Settle()
	w.Ready("cart")
	began := w.Now()
	logins := []login{newLogin(t, w.Secret("creds"), key.Valkey)}
	open := logins[0].open()
	if got := open.do("SET key value"); got != "OK" {
		t.Fatalf("SET is answered with: %s", got)
	}
	for week := 1; week <= 3; week++ {
		rotated := began.Add(time.Duration(week) * 168 * time.Hour)
		w.AdvanceTo(rotated.Add(-time.Second))
		former := logins[len(logins)-1]
		if newLogin(t, w.Secret("creds"), key.Valkey).password != former.password {
			t.Fatalf("week %d: rotated too early", week)
		}
		w.AdvanceTo(rotated)
		present := newLogin(t, w.Secret("creds"), key.Valkey)
		if present.password == former.password {
			t.Fatalf("week %d: not rotated", week)
		}
		logins = append(logins, present)
		w.AdvanceTo(rotated.Add(24*time.Hour - time.Second))
		for _, l := range []login{former, present} {
			if err := l.isIn(); err != nil {
				t.Errorf("week %d, during the overlap: %v", week, err)
			}
			if got := l.do("SET", "key", "value"); got != "OK" {
				t.Errorf("week %d, during the overlap: SET is answered with %s", week, got)
			}
		}
		if week == 1 {
			if got := open.do("GET key"); got != "value" {
				t.Errorf("during the overlap an open connection answers %s", got)
			}
		}
		w.AdvanceTo(rotated.Add(24 * time.Hour))
		if err := former.isOut(); err != nil {
			t.Errorf("week %d, after the overlap: %v", week, err)
		}
		if err := present.isIn(); err != nil {
			t.Errorf("week %d, after the overlap: %v", week, err)
		}
	}
	for i, l := range logins[:len(logins)-1] {
		if err := l.isOut(); err != nil {
			t.Errorf("login %d: %v", i, err)
		}
	}
}
