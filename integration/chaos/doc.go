// Package chaos lets a seeded random mix of people, programs and faults loose on the operator, and then checks that nothing was lost, leaked or
// touched that should not be.
//
// For each namespace a model draws what happens next: applications are created, changed and deleted, and ask for new users, Secrets are edited, copied and
// deleted, workloads that use them rolled, the whole namespace deleted and made again. Meanwhile Aiven fails in every way that its simulator knows,
// somebody else writes there too, connections to the API server are cut and refused, and the operator's processes are killed, stopped and frozen, alone or
// as two replicas that contend for the lease. Then all that ends. What Check finds must be in order once the operator has had the time of one back-off,
// and after that everything is deleted, and nothing may be left at Aiven.
//
// The same seed draws the same operations and the same faults in the same order. How they meet is the machine's affair.
package chaos
