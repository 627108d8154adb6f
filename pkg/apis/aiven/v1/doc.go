// Package v1 holds the AivenApplication custom resource in its storage version.
// It is the superset of v2: the operator reads and writes this one, people are
// asked to write v2.
//
// # Decoding
//
// No field of spec can make decoding fail on account of its text alone. Objects
// outlive schemas, and one object that a typed client cannot decode breaks every
// list and every watch of its kind. Times and durations are therefore strings
// with a method that reads them, and an unknown access level decodes as it is.
// The times of status are metav1.Time, whose format date-time lets through texts
// that Go cannot decode, such as 2030-01-31t12:00:00z; the rule on each of them
// only has to touch the value, because such a text fails to convert.
//
// # Validation
//
// The schema refuses what can never work, with a message that says what would.
// What was stored before a rule existed stays as it is: the API server passes
// over a rule whose value did not change, and the rules on spec, which would
// change with any of its fields, compare with the stored object themselves.
// Lists that an earlier schema had are atomic, and unique by a rule: on a list of
// type map the API server refuses server-side apply, even of a label, where the
// stored object has a duplicate.
//
// The rules keep to what Kubernetes 1.33 can compile and estimate. It is the first
// that passes over what did not change in a write of the status too: an older one
// refuses the status of an object whose spec a rule would refuse today.
//
// +kubebuilder:object:generate=true
// +groupName=aiven.nais.io
package v1
