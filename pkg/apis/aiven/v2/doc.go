// Package v2 holds the AivenApplication custom resource as people are asked to write it:
// each service names its own Secret. What v1 and v2 have in common is declared in v1.
//
// The versions are converted by renaming alone. Whatever v1 stores and v2 does not know
// would be dropped by a write through v2, so v2 knows every field of v1.
//
// +kubebuilder:object:generate=true
// +groupName=aiven.nais.io
package v2
