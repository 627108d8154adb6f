// Command image builds the operator's image without a container daemon and without a registry:
//
//	go run . -source=../.. -version=v1.0.0 -o=keysmith.tar
//
// It is ko, as a library. The program ko insists on pulling a base from a registry; here the base is made on the spot (see package rootfs), since a static
// program needs no more of it than certificates and a user. What comes out depends on the source, the flags and the version of Go alone: two builds of a
// commit have the same digest wherever they are made.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Exit statuses.
const (
	failure  = 1
	badUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run writes the reference of the image, with its digest, to stdout, and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.source, "source", ".", "`folder` of the operator's go.mod")
	flags.StringVar(&o.version, "version", "dev", "version of the operator; without its v it is the image's tag, as charts have it")
	flags.StringVar(&o.commit, "commit", "unknown", "commit of the source")
	flags.StringVar(&o.ldflags, "ldflags", "", "`flags` for the Go linker")
	flags.StringVar(&o.sbom, "sbom", "", "`folder` for a bill of materials (SPDX) of each platform; none if empty")
	image := flags.String("image", "keysmith", "`name` of the image, without tag")
	archive := flags.String("o", "", "`file` to write an OCI archive to")
	push := flags.Bool("push", false, "push the image to its registry, as the user of the Docker configuration")
	if err := flags.Parse(args); err != nil {
		return badUsage
	}
	if flags.NArg() > 0 || *archive == "" && !*push {
		_, _ = fmt.Fprintln(stderr, "image: say with -o where to write the image, or with -push to push it; there are no arguments")
		return badUsage
	}
	tag, err := name.NewTag(*image + ":" + strings.TrimPrefix(o.version, "v"))
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "image: -image or -version: %v\n", err)
		return badUsage
	}
	if o.created, err = epoch(os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		_, _ = fmt.Fprintf(stderr, "image: %v\n", err)
		return badUsage
	}
	index, err := buildImage(ctx, o)
	if err == nil && *archive != "" {
		err = writeArchive(*archive, index, tag)
	}
	if err == nil && *push {
		err = pushImage(ctx, tag, index)
	}
	if err == nil {
		err = printReference(stdout, tag, index)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "image: %v\n", err)
		return failure
	}
	return 0
}

// epoch reads the seconds since 1970 that https://reproducible-builds.org/specs/source-date-epoch/ tells to use for every time.
func epoch(seconds string) (time.Time, error) {
	if seconds == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read SOURCE_DATE_EPOCH: %q is not a number of seconds", seconds)
	}
	return time.Unix(s, 0).UTC(), nil
}

func pushImage(ctx context.Context, tag name.Tag, index v1.ImageIndex) error {
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", tag, err)
	}
	return nil
}

func printReference(w io.Writer, tag name.Tag, index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("digest the image: %w", err)
	}
	_, err = fmt.Fprintln(w, tag.Context().Digest(digest.String()))
	return err
}
