// Package year lets applications, an operator and a simulated Aiven live through a year in a few minutes, and checks that no credential ever fails
// anybody.
//
// Most applications rotate their users each week; the others have certificates that Aiven renews in the course of the year. Aiven's CAs are rotated once, the
// API is out of order now and then, the operator is restarted, killed in the middle of rotations and away for longer than a week. Clients use what is in
// the Secrets: some are restarted soon after a Secret has changed, others go on with their copy until it is refused. A copy has to work until the moment that
// was announced for its end, and no longer; nothing else excuses a refusal. At each check every Secret has to be valid and the users at Aiven have to be
// exactly those that Secrets hold and those on their way out. In the end all applications are deleted, and nothing may be left.
//
// The same seed makes the same plan. How long passes of the operator wait for their turn is the machine's affair.
package year
