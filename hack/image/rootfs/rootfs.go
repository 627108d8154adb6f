// Package rootfs says what is in the image beside the operator: roots of trust and a user, so that the image needs no base. It has no shell, no
// package manager and nothing else that could have a vulnerability of its own. Time zones are not in it: the operator knows UTC alone.
package rootfs

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// User is whom the operator runs as: the user and the group that distroless images call nonroot. It is numeric, since a kubelet that has to check
// runAsNonRoot looks no names up.
const User = "65532:65532"

// File is a regular file that everybody may read and nobody may change.
type File struct {
	Path string // without the leading slash
	Data []byte
}

// Files are all files, in the order of their paths.
func Files() []File {
	return []File{
		{"etc/group", []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/passwd", []byte("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n")},
		{"etc/ssl/certs/ca-certificates.crt", certificates()},
	}
}

// certificates are the roots that Mozilla trusts, in PEM, from a Go module: its version is pinned, so everybody builds the same. Roots that Mozilla
// trusts with reservations, which PEM cannot express, are left out: what they issue anew is not to be trusted.
//
// They are a file rather than part of the program, so that certificates that are mounted into a folder (SSL_CERT_DIR) add to them.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return out.Bytes()
}
