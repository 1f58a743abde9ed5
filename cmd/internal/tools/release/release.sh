#!/usr/bin/env bash
# Builds what a release has, and publishes nothing: archives, packages for Debian and RPM, the guards for Python and npm,
# the Helm chart, the context of the image, a bill of materials for each program, and checksums.
#
# usage, at the top of the repository: release.sh VERSION FOLDER
# PLATFORMS="linux/amd64 ..." builds fewer programs, PACKAGERS="deb rpm" fewer packages
#
# It uses go build and nfpm. goreleaser would compile 1,788 packages to run the same two steps.
set -euo pipefail
version=${1:?usage: release.sh VERSION FOLDER} out=${2:?usage: release.sh VERSION FOLDER}
number=${version#v}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]] || { echo "release: $version is not a version; set one such as VERSION=v1.2.3" >&2; exit 1; }
revision=${REVISION:-$(git describe --always --dirty --abbrev=12 --exclude='*')}
rm -rf "$out" && mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
go build -o "$work/sbom" ./cmd/internal/tools/sbom
packagers=${PACKAGERS-deb rpm}
[ -z "$packagers" ] || go build -modfile=cmd/internal/tools/nfpm/go.mod -o "$work/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm
# Equal trees give equal archives: no owner, the time of the commit, a fixed order.
when=$(git log -1 --format=%ct)
pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$when" -C "$2" -cf - "${@:3}" | gzip -n >"$1"; }

for platform in ${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}; do
  os=${platform%/*} arch=${platform#*/} name=weir_${number}_${platform/\//_}
  mkdir -p "$work/$name"
  GOOS=$os GOARCH=$arch CGO_ENABLED=0 go build -pgo=auto -trimpath -buildvcs=false -ldflags="-s -w -X main.version=$version -X main.revision=$revision" \
    -o "$work/$name/" ./cmd/weir ./cmd/weir-hook
  cp LICENSE README.md CHANGELOG.md cmd/weir/deploy/weir.service "$work/$name/"
  pack "$out/$name.tar.gz" "$work" "$name"
  "$work/sbom" "$work/$name/weir" >"$out/$name.cdx.json"
  [ "$os" = linux ] || continue
  # The unit names /usr/local/bin, where an operator installs by hand; packages install below /usr/bin.
  sed -e '/^#/d' -e 's#/usr/local/bin/weir#/usr/bin/weir#' cmd/weir/deploy/weir.service >"$work/weir.service"
  for packager in $packagers; do
    VERSION=$number ARCH=$arch FILES=$work/$name UNIT=$work/weir.service \
      "$work/nfpm" package --config cmd/internal/tools/release/nfpm.yaml --packager "$packager" --target "$out/"
  done
done

cp -r sink/guard/python sink/guard/typescript "$work/"
sed -i "s/^version = .*/version = \"$number\"/" "$work/python/pyproject.toml"
python3 -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$out" "$work/python"
# npm warns of packages with scripts; the compiled files are in the package, so it needs none.
(cd "$work/typescript" && npm version --no-git-tag-version --allow-same-version "$number" >/dev/null && npm ci --silent --no-audit --no-fund && npm pkg delete scripts devDependencies &&
  npm pack --silent --pack-destination "$out" >/dev/null)

# helm install weir weir-VERSION.tgz
cp -r cmd/weir/deploy/helm "$work/weir"
sed -i -e "s/^version: .*/version: $number/" -e "s/^appVersion: .*/appVersion: \"$version\"/" -e '/^# make release/d' "$work/weir/Chart.yaml"
pack "$out/weir-$number.tgz" "$work" weir

# What the image is built from: docker build -f cmd/weir/Dockerfile --build-arg VERSION=... FOLDER
git archive --format=tar --prefix=context/ HEAD go.mod go.sum .dockerignore cmd events analyzer state sink schemas | gzip -n >"$out/weir_${number}_image.tar.gz"
(cd "$out" && sha256sum -- * >checksums.txt)
(cd "$out" && ls -l)
