#!/usr/bin/env bash
# Publishes a release: pushes and signs the image, attests its bills of material, and attaches everything to the release at GitHub.
#
#   hack/release.sh v1.0.0 [FILE ...]    attaches the files too
#
# CircleCI runs it for a tag. It needs cosign, with an identity in SIGSTORE_ID_TOKEN, gh, with a token in GH_TOKEN, and a login at the registry.
set -euo pipefail

fail() {
	echo "release: $1" >&2
	exit 1
}

[[ ${1:-} =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || fail "usage: release.sh VERSION [FILE ...], where VERSION is such as v1.0.0"
tag=$1
shift
files=()
for file in "$@"; do
	[ -f "$file" ] || fail "there is no file $file"
	files+=("$(realpath "$file")")
done
cd "$(dirname "$0")/.."

# The last line is the name of the image with its digest: what is signed is what was built here, not what a tag means by then.
image=$(make --no-print-directory --silent image-push VERSION="$tag" | tail -n 1)
[[ $image =~ @sha256:[0-9a-f]{64}$ ]] || fail "make image-push said \"$image\", want the image with its digest"
cosign sign --yes "$image"
for sbom in bin/sbom/keysmith-linux-*.spdx.json; do
	# The first package of each is the image of its platform.
	digest=$(sed -n 's/^ *"name": "\(sha256:[0-9a-f]*\)",*$/\1/p' "$sbom" | head -n 1)
	[ -n "$digest" ] || fail "$sbom does not say which image it describes"
	cosign attest --yes --type spdxjson --predicate "$sbom" "${image%@*}@$digest"
done

files+=(bin/keysmith-image.tar bin/sbom/*.spdx.json)
for file in "${files[@]}"; do
	(cd "$(dirname "$file")" && sha256sum "$(basename "$file")")
done >bin/SHA256SUMS
cosign sign-blob --yes --bundle bin/SHA256SUMS.sigstore.json bin/SHA256SUMS
files+=(bin/SHA256SUMS bin/SHA256SUMS.sigstore.json)

if ! gh release view "$tag" >/dev/null 2>&1; then
	prerelease=()
	[[ $tag != *-* ]] || prerelease=(--prerelease)
	gh release create "$tag" --verify-tag --title "$tag" --notes "CHANGELOG.md says what is new." "${prerelease[@]}"
fi
gh release upload "$tag" --clobber "${files[@]}"
