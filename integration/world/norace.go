//go:build !race

package world

// race are the flags with which the operator is built: it has the race detector if the test has it.
var race []string
