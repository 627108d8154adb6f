// Package v1 holds the AivenApplication custom resource in its storage version.
// It is the superset of v2: the operator reads and writes this one, people are
// asked to write v2.
//
// No field of spec can make decoding fail on account of its text alone. Objects
// outlive schemas, and one object that a typed client cannot decode breaks every
// list and every watch of its kind. Times and durations are therefore strings
// with a method that reads them, and an unknown access level decodes as it is.
//
// +kubebuilder:object:generate=true
// +groupName=aiven.nais.io
package v1
