package aiven

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestCensusCountsUsersByTheFormOfTheirNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	c, err := New(Options{Token: func() string { return "t" }, Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var s Service
	for _, name := range []string{"avnadmin", "shop_cart_0123abcd_x1-", "shop_a-b_0123abcd_xyz", "shop-r-abcdefgh", "cart-9Qz"} {
		s.AddUser(User{Name: name})
	}
	c.entry(Ref{Project: "dev", Service: "one"}).show(&s)
	want := `
# HELP aivenator_service_users_count Service users by project and by the form of their names, of the services that were read lately.
# TYPE aivenator_service_users_count gauge
aivenator_service_users_count{pool="dev",username_convention="name-suffix"} 2
aivenator_service_users_count{pool="dev",username_convention="other"} 1
aivenator_service_users_count{pool="dev",username_convention="team_app_hash_suffix"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "aivenator_service_users_count"); err != nil {
		t.Error(err)
	}
}
