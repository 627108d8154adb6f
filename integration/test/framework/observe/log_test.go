//go:build k8srequired

package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/keysmith-io/keysmith/integration/counting"
	"github.com/keysmith-io/keysmith/pkg/middleware"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestLogLinesSayWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	bed := counting.New(t)
	var failed sync.Map
	talker := counting.Named("talker").Do(func(ctx context.Context, _ resource.Operation, obj client.Object) error {
		log.FromContext(ctx).Info("hello")
		if _, again := failed.LoadOrStore(obj.GetName(), true); !again {
			return errors.New("fail once")
		}
		return nil
	})
	last := counting.Named("last")
	cfg := counting.Services("observe", resource.Wrap([]resource.Interface{talker, last}, middleware.Logging(nil))...)
	cfg.Workers = 4
	op := bed.Start(counting.Controller(cfg))
	objects := map[string]bool{}
	for i := range 8 {
		name := fmt.Sprintf("cart-%d", i)
		objects[bed.Namespace+"/"+name] = true
		bed.Make(counting.Service(name))
	}
	for i := range 8 {
		bed.Ready(fmt.Sprintf("cart-%d", i), "True Done")
	}
	op.Stop()

	// What each message has to say besides the controller, the object and the loop.
	about := map[string][]string{
		"hello":            {"resource"},
		"resource ran":     {"resource", "operation", "outcome", "duration"},
		"Reconciler error": {"error"},
	}
	seen := map[string]int{}
	loops := map[string]string{}  // to the object
	hellos := map[string]string{} // loops to the object
	for _, text := range op.Log() {
		line := map[string]any{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("read %s: %v", text, err)
		}
		message := line["msg"].(string)
		keys, ok := about[message]
		if !ok {
			continue
		}
		seen[message]++
		for _, key := range append(keys, "controller", "object", "loop") {
			if value, ok := line[key].(string); !ok || value == "" {
				t.Errorf("no %s in %s", key, text)
			}
		}
		object, loop := fmt.Sprint(line["object"]), fmt.Sprint(line["loop"])
		if line["controller"] != "observe" || !objects[object] {
			t.Errorf("a line about something else: %s", text)
		}
		if of, ok := loops[loop]; ok && of != object {
			t.Errorf("loop %s is one of %s and of %s", loop, of, object)
		}
		loops[loop] = object
		if message == "hello" {
			if line["resource"] != "talker" {
				t.Errorf("want resource talker in %s", text)
			}
			if _, twice := hellos[loop]; twice {
				t.Errorf("two passes are loop %s", loop)
			}
			hellos[loop] = object
		}
	}
	want := map[string]int{
		"hello":            talker.Created(),
		"resource ran":     talker.Created() + last.Created(),
		"Reconciler error": len(objects),
	}
	for message, n := range want {
		if seen[message] != n {
			t.Errorf("%d lines %q, want %d", seen[message], message, n)
		}
	}
}
