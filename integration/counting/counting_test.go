package counting

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/resource"
)

func TestResourceCountsCallsOfManyWorkers(t *testing.T) {
	t.Parallel()
	const each = 50
	r, sick := Named("counter"), errors.New("sick")
	var wg sync.WaitGroup
	for range each {
		wg.Go(func() { _ = r.EnsureCreated(t.Context(), Secret("a")) })
		wg.Go(func() { _ = r.EnsureCreated(t.Context(), Secret("b")) })
		wg.Go(func() { _ = r.EnsureDeleted(t.Context(), Secret("b")) })
		wg.Go(func() {
			r.Do(func(context.Context, resource.Operation, client.Object) error { return sick })
		})
	}
	wg.Wait()
	got := []int{r.Created("a"), r.Created("b"), r.Created("c"), r.Created("a", "b"), r.Created(), r.Deleted("a"), r.Deleted()}
	if diff := cmp.Diff([]int{each, each, 0, 2 * each, 2 * each, 0, each}, got); diff != "" {
		t.Errorf("counts: (-want +got)\n%s", diff)
	}
	if err := r.EnsureDeleted(t.Context(), nil); !errors.Is(err, sick) {
		t.Errorf("it answered %v, want %v", err, sick)
	}
	if err := r.Do(nil).EnsureDeleted(t.Context(), nil); err != nil {
		t.Errorf("it answered %v, want nil", err)
	}
}
