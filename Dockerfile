# syntax=docker/dockerfile:1

# The image, for those who build with a container daemon. make image builds the same without one: what is in it beside the operator comes from
# hack/image/rootfs in both, and hack/image has a test that holds user, entrypoint, paths and labels of both together.
#
#   docker build --build-arg VERSION=v1.0.0 --build-arg COMMIT="$(git rev-parse HEAD)" -t keysmith .

# Runs where it is built, and compiles for where it shall run.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm@sha256:dc9ad6c05acc7a88e5b71bde60a5fe3bd4b9f0db209011711b464107438a8107 AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go run -C hack/image ./rootfs/cmd/rootfs /rootfs
ARG TARGETOS TARGETARCH
ARG VERSION=dev COMMIT=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS="$TARGETOS" GOARCH="$TARGETARCH" make build VERSION="$VERSION" COMMIT="$COMMIT"

# There is nothing in it that the operator does not use, and nothing to keep up to date but what go.mod lists.
FROM scratch
ARG VERSION=dev COMMIT=unknown
LABEL org.opencontainers.image.title="keysmith" \
      org.opencontainers.image.description="Gives applications on Kubernetes credentials on shared Aiven services" \
      org.opencontainers.image.source="https://github.com/keysmith-io/keysmith" \
      org.opencontainers.image.documentation="https://github.com/keysmith-io/keysmith/tree/main/docs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="keysmith-io" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /rootfs/ /
COPY --from=build --chmod=0555 /src/bin/keysmith /ko-app/keysmith
USER 65532:65532
ENTRYPOINT ["/ko-app/keysmith"]
