package controller

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/giantswarm/microerror"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ReasonMissingPermission says that the API server refused a call for want of a right.
const ReasonMissingPermission = "MissingPermission"

// Permission is a right of the API server's role-based access control.
type Permission struct {
	User      string // who lacks it
	Verb      string // such as patch
	Group     string // API group, empty for the core
	Resource  string // in the plural, with the subresource if there is one: services/status
	Namespace string // empty: in the whole cluster
}

// String says it as in "patch services/status in namespace a" or "list applications.example.org in all namespaces".
func (p Permission) String() string {
	name := p.Resource
	if p.Group != "" {
		name += "." + p.Group
	}
	if p.Namespace == "" {
		return fmt.Sprintf("%s %s in all namespaces", p.Verb, name)
	}
	return fmt.Sprintf("%s %s in namespace %s", p.Verb, name, p.Namespace)
}

// refusal is how the API server words a missing right, whichever authorizer refuses: see forbiddenMessage in
// k8s.io/apiserver/pkg/endpoints/handlers/responsewriters. The verb stands nowhere else in the answer.
var refusal = regexp.MustCompile(`User "([^"]*)" cannot (\S+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)"| at the cluster scope)`)

// MissingPermission returns the right for want of which the API server refused a call. It is false for every other
// error, among them what admission control forbids.
func MissingPermission(err error) (Permission, bool) {
	var status apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &status) {
		return Permission{}, false
	}
	m := refusal.FindStringSubmatch(status.Status().Message)
	if m == nil {
		return Permission{}, false
	}
	return Permission{User: m[1], Verb: m[2], Resource: m[3], Group: m[4], Namespace: m[5]}, true
}

// explain makes of a failure what people need to read: which right is missing, if that is why it happened, and the
// description of a microerror.Error, which its own text leaves out.
func explain(err error) error {
	if missing, ok := MissingPermission(err); ok {
		return fmt.Errorf("%s: %w", missing.sentence(), err)
	}
	var e *microerror.Error
	if errors.As(err, &e) && e.Desc != "" && !strings.Contains(err.Error(), e.Desc) {
		return fmt.Errorf("%w: %s", err, e.Desc)
	}
	return err
}

func (p Permission) sentence() string { return fmt.Sprintf("%s is not allowed to %s", p.User, p) }
