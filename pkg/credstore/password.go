package credstore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
)

const minPassword = 6

// CheckPassword refuses passwords that Java cannot use: it takes printable ASCII, and keytool at least six characters.
func CheckPassword(password string) error {
	if len(password) < minPassword {
		return fmt.Errorf("the password has less than the %d characters that Java wants", minPassword)
	}
	for _, r := range password {
		if r < ' ' || r > '~' {
			return errors.New("the password is not printable ASCII")
		}
	}
	return nil
}

// RandomPassword returns a password that nobody can guess: at least 26 characters with at least 128 bits of randomness.
// That is also more than the 14 characters that Bouncy Castle's FIPS 140 mode asks for.
func RandomPassword() string { return rand.Text() }

// IsRandomPassword tells whether a password has the form of those of RandomPassword.
func IsRandomPassword(password string) bool { return randomPassword.MatchString(password) }

var randomPassword = regexp.MustCompile(`^[A-Z2-7]{26,64}$`)
