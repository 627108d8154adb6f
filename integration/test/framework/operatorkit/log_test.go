//go:build k8srequired

package operatorkit

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keysmith-io/keysmith/integration/operatorkit/rolebinding"
	"github.com/keysmith-io/keysmith/integration/operatorkit/serviceaccount"
	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/resource"
)

// TestLog shows that with many workers every line says which object it is about, and says the truth.
func TestLog(t *testing.T) {
	t.Parallel()
	w := newTenants(t)
	slice := resource.Wrap([]resource.Interface{w.serviceAccount(), w.roleBinding()}, inContext)
	w.run(controller.Config[*corev1.ConfigMap]{Prepare: prepare, Resources: slice, Workers: 8})
	var made []string
	for i := range 24 {
		name := fmt.Sprintf("tenant-%02d", i)
		w.Make(tenant(name, "", "view"))
		made = append(made, "ServiceAccount "+name+" pulls with nothing", "RoleBinding "+name+"-view gives view to "+name)
	}
	w.become(made...)
	for i := range 24 {
		w.Remove(inNamespace(w, tenant(fmt.Sprintf("tenant-%02d", i), "", "")))
	}
	for i := range 24 {
		w.Gone(tenant(fmt.Sprintf("tenant-%02d", i), "", ""))
	}
	w.become()

	w.checkLog()
	if got := len(w.log.lines(t, "")); got < 4*2*24 {
		t.Errorf("%d lines, want at least four for each of the two children of 24 tenants", got)
	}
}

// checkLog checks the lines of all resources.
func (w *tenants) checkLog() {
	w.t.Helper()
	objects := map[string]string{} // by loop
	for _, l := range w.log.lines(w.t, "") {
		if l.Controller != controllerName {
			w.t.Errorf("line is of the controller %q, want %q: %+v", l.Controller, controllerName, l)
		}
		switch {
		case l.Loop == "":
			w.t.Errorf("line has no loop: %+v", l)
		case objects[l.Loop] == "":
			objects[l.Loop] = l.Object
		case objects[l.Loop] != l.Object:
			w.t.Errorf("loop %s is of the object %s, and here of another: %+v", l.Loop, objects[l.Loop], l)
		}
		// Where a message names something, it is the tenant or begins with its name.
		_, name, named := strings.Cut(l.Message, "`")
		object, inNamespace := strings.CutPrefix(l.Object, w.Namespace+"/")
		if !inNamespace || named && name != object+"`" && !strings.HasPrefix(name, object+"-") && !strings.HasPrefix(name, object+"` ") {
			w.t.Errorf("line is of another object than its message: %+v", l)
		}
		switch l.Resource {
		case serviceaccount.Name:
			if l.Function != "" || strings.Contains(l.Message, "role binding") {
				w.t.Errorf("line is not of that resource: %+v", l)
			}
		case rolebinding.Name: // crud adds the function
			if l.Function == "" || strings.Contains(l.Message, "ing service account") {
				w.t.Errorf("line is not of that resource: %+v", l)
			}
		default:
			w.t.Errorf("line is of no resource: %+v", l)
		}
		if want := event(l.Message); want != "" && l.Event != want {
			w.t.Errorf("line is of the event %q, want %q: %+v", l.Event, want, l)
		}
	}
}

// event returns the event that a message is about, "" if it may be about either.
func event(message string) string {
	switch {
	case strings.HasPrefix(message, "creat"), strings.HasPrefix(message, "updat"):
		return "update"
	case strings.Contains(message, "service account") && strings.HasPrefix(message, "delet"):
		return "delete"
	default:
		return ""
	}
}
