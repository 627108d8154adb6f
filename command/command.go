// Package command holds what the commands for people have in common: where the cluster is, how a Secret is named on a command line, and what is said where a
// right is missing. These commands run on a person's machine, with the person's rights, and read the cluster only.
package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc" // kubeconfigs name this way to log in, as kubectl understands it
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keysmith-io/keysmith/pkg/controller"
	"github.com/keysmith-io/keysmith/pkg/project"
)

// timeout is how long one request to the API server may take: a person waits for it.
const timeout = 30 * time.Second

// Cluster says which cluster is meant, in kubectl's way: by flags, by $KUBECONFIG, or by ~/.kube/config.
type Cluster struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

// Bind declares the flags that say which cluster is meant.
func (c *Cluster) Bind(fs *pflag.FlagSet) {
	c.rules = clientcmd.NewDefaultClientConfigLoadingRules()
	fs.StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "kubeconfig file; default: $KUBECONFIG, or else ~/.kube/config")
	fs.StringVar(&c.overrides.CurrentContext, "context", "", "context of the kubeconfig; default: the current one")
}

// BindNamespace declares the flag that names a namespace.
func (c *Cluster) BindNamespace(fs *pflag.FlagSet) {
	fs.StringVarP(&c.overrides.Context.Namespace, "namespace", "n", "", "namespace of a Secret that is named without one; default: that of the context")
}

func (c *Cluster) config() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &c.overrides)
}

// Reader reads from the API server the kinds that a scheme knows. It calls nothing yet. The error says what is wrong with the kubeconfig.
func (c *Cluster) Reader(scheme *runtime.Scheme) (client.Reader, error) {
	config, err := c.config().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("there is no kubeconfig: give --kubeconfig, or set $KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	config.Timeout = timeout
	config.UserAgent = project.Name + "/" + project.Version()
	config.WarningHandler = rest.NoWarnings{} // of the older version of AivenApplications, which is read on purpose
	r, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper(scheme)})
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return r, nil
}

// mapper knows the scheme's kinds by itself, so that a command asks the API server for what it is about and for nothing else.
func mapper(scheme *runtime.Scheme) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(scheme.PreferredVersionAllGroups())
	for gvk := range scheme.AllKnownTypes() {
		scope := meta.RESTScopeNamespace
		if gvk.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
			scope = meta.RESTScopeRoot
		}
		m.Add(gvk, scope)
	}
	return m
}

// Secret reads "NAMESPACE/NAME", or "NAME" in the namespace of the flag or of the context.
func (c *Cluster) Secret(arg string) (types.NamespacedName, error) {
	namespace, name, ok := strings.Cut(arg, "/")
	flag := c.overrides.Context.Namespace
	if !ok {
		var err error
		if namespace, _, err = c.config().Namespace(); err != nil {
			return types.NamespacedName{}, fmt.Errorf("read kubeconfig: %w", err)
		}
		name = arg
	}
	switch {
	case ok && flag != "" && flag != namespace:
		return types.NamespacedName{}, fmt.Errorf("--namespace %s contradicts %s", flag, arg)
	case len(validation.IsDNS1123Label(namespace)) > 0, len(validation.IsDNS1123Subdomain(name)) > 0:
		return types.NamespacedName{}, fmt.Errorf("%q does not name a Secret: want NAMESPACE/NAME, such as shop/cart-kafka", arg)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// Say words an answer of the API server for the person at the terminal: a missing right in one sentence that names it, as an administrator can grant it.
func Say(err error) error {
	missing, forbidden := controller.MissingPermission(err)
	switch {
	case err == nil:
		return nil
	case forbidden:
		return fmt.Errorf("you (%s) lack the right to %s", missing.User, missing)
	case apierrors.IsUnauthorized(err):
		return errors.New("the cluster does not accept your credentials: log in again")
	default:
		return err
	}
}

// page is how many objects one list call answers.
const page = 500

// Each reads all objects of a kind, page by page. The list is an empty one of that kind; it stays empty.
func Each(ctx context.Context, cluster client.Reader, list client.ObjectList, visit func(client.Object), options ...client.ListOption) error {
	for next := ""; ; {
		l, _ := list.DeepCopyObject().(client.ObjectList)
		if err := cluster.List(ctx, l, append([]client.ListOption{client.Limit(page), client.Continue(next)}, options...)...); err != nil {
			return err
		}
		err := meta.EachListItem(l, func(o runtime.Object) error {
			if obj, ok := o.(client.Object); ok {
				visit(obj)
			}
			return nil
		})
		if next = l.GetContinue(); err != nil || next == "" {
			return err
		}
	}
}
