#!/usr/bin/env bash
# Runs the integration tests on a kind cluster: make integration-kind [FOLDER=janitor]
#
# The cluster is created if there is none of that name, and stays for the next run. make integration installs the custom resource definitions.
#
#   KIND_CLUSTER  its name; keysmith-test by default
#   KIND_IMAGE    the node image, which decides on the version of Kubernetes; kind's own choice by default
#   FOLDER        a folder of integration/test; all of them by default
set -euo pipefail
cd "$(dirname "$0")/.."

cluster=${KIND_CLUSTER:-keysmith-test}

fail() {
	echo "integration-kind: $1" >&2
	exit 1
}

command -v kind >/dev/null || fail "kind is not installed: https://kind.sigs.k8s.io/docs/user/quick-start/#installation"
clusters=$(kind get clusters) || fail "kind cannot list its clusters; does docker info (or podman info) answer?"
if ! grep -qxF "$cluster" <<<"$clusters"; then
	kind create cluster --name "$cluster" --wait 5m ${KIND_IMAGE:+--image "$KIND_IMAGE"}
fi

kubeconfig=$(mktemp)
trap 'rm -f "$kubeconfig"' EXIT
kind get kubeconfig --name "$cluster" >"$kubeconfig"
echo "integration-kind: the cluster stays: kind delete cluster --name $cluster" >&2
E2E_KUBECONFIG=$kubeconfig "${MAKE:-make}" --no-print-directory integration
