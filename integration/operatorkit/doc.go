// Package operatorkit holds a part of an operator as teams have written it for operatorkit v7.2.0, with a file for each
// method as operatorkit recommends. That it runs unchanged on our framework is tested in integration/test/framework/operatorkit.
//
// The operator gives tenants their rights. A ConfigMap describes a tenant: its name is the tenant's, "roles" in its data
// names the cluster roles, separated by blanks, and "pullSecret" the Secret that images are pulled with.
//
//   - key reads a ConfigMap.
//   - controllercontext has the operator's InitCtx, what it puts into the context, and what resources tell each other.
//   - serviceaccount is a simple resource.
//   - rolebinding is one on top of operatorkit's pkg/resource/crud.
//
// Nothing below this folder may import any of our packages.
package operatorkit
