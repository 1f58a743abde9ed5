#!/usr/bin/env bash
# Runs what a new user does, by the commands and the code of the pages, with what a release has: the archive, the
# wheel and the npm package are built once, for this system. At the end it prints a table with a row for each journey.
# A journey that fails does not end the others. What cannot be tested here is printed with "*** NOT TESTED".
#
# usage, at the top of the repository: journeys.sh        BASE=REVISION is upgraded from (the commit before)
set -uo pipefail
go=${GO:-go} repo=$PWD bin=$PWD/bin out=$PWD/bin/journeys code=0
rm -rf "$out" && mkdir -p "$out"
export WEIR_RELEASE=$out/release WEIR_JOURNEYS=$out/rows
begun=$SECONDS
PLATFORMS="$($go env GOOS)/$($go env GOARCH)" PACKAGERS="" cmd/internal/tools/release/release.sh v0.0.0 "$WEIR_RELEASE" >/dev/null || exit 1
tar -xzf "$WEIR_RELEASE"/weir_*_"$($go env GOOS)_$($go env GOARCH).tar.gz" -C "$out" || exit 1
WEIR_PROGRAMS=$(echo "$out"/weir_*)
export WEIR_PROGRAMS
echo "the release is built: $((SECONDS - begun)) s"

# The weir of the commit before, where the clone has it.
base=${BASE:-HEAD~1}
if git rev-parse --verify --quiet "$base^{commit}" >/dev/null; then
  mkdir -p "$out/previous/source" && git archive "$base" | tar -x -C "$out/previous/source" &&
    (cd "$out/previous/source" && CGO_ENABLED=0 $go build -trimpath -buildvcs=false -o "$out/previous/" ./cmd/weir) && export WEIR_PREVIOUS=$out/previous || code=1
  rm -rf "$out/previous/source"
fi

try() { # folder, package, test, further arguments
  local in=$1
  shift
  (cd "$in" && $go test -count=1 -v "$1" -run "$2" "${@:3}") || code=1
}
row() { # name, promise, what happened: of what has no test that could write it
  printf '%s\t0\t0\t%s\t%s\n' "$1" "$2" "$3" >>"$WEIR_JOURNEYS"
}

try . ./cmd/weir/journeys .
if sink/inspect/browser/setup.sh "$bin/browser"; then try sink/inspect/browser . '^TestFirstHour$'; else row "J1 page" "" "NOT TESTED: no Chromium"; fi
sink/check/clients/install.sh "$bin/clients" claude-code
WEIR_CLIENTS=$bin/clients try . ./sink/check/clients '^TestFirstHook$'
compose="cd '$repo/cmd/weir/deploy' && $go test -count=1 -v . -run '^(TestCompose|TestComposeRuns)\$'"
if (cd cmd/internal/app/e2e && ./kafka.sh jars >/dev/null); then
  (cd cmd/internal/app/e2e && $go run ./trial on-kafka bash -c "$compose") || code=1
else
  echo "*** NOT TESTED against Apache Kafka: the compose file; see above for what is missing ***"
  bash -c "$compose" || code=1
fi
mvn -q -B dependency:copy -Dartifact=org.openapitools:openapi-generator-cli:7.17.0 -DoutputDirectory="$bin/openapi" || echo "openapi-generator is not there" >&2
WEIR_OPENAPI_GENERATOR=$(ls "$bin"/openapi/*.jar 2>/dev/null) try cmd/internal/tools/openapi . '^(TestGeneratedClients|TestDotnet)$' -timeout 30m
sink/guard/frameworks/install.sh "$bin/frameworks" recipes
WEIR_FRAMEWORKS=$bin/frameworks try . ./sink/guard/frameworks '^TestRecipes$' -timeout 30m

# A journey that left no row was renamed or removed, or its test did not compile.
for n in $(seq 0 19); do
  grep -q "^J$n " "$WEIR_JOURNEYS" || { row "J$n" "" "BROKEN: no test ran it" && code=1; }
done
echo
sort -V "$WEIR_JOURNEYS" | awk -F'\t' '
  { for (i = 1; i <= 5; i++) { cell[NR, i] = $i; if (length($i) > wide[i]) wide[i] = length($i) } }
  END {
    if (wide[1] < 7) wide[1] = 7
    format = "%-" wide[1] "s %8s %6s  %-" wide[4] "s  %s\n"
    printf format, "JOURNEY", "SECONDS", "LINES", "PROMISED", "HAPPENED"
    for (n = 1; n <= NR; n++) printf format, cell[n, 1], cell[n, 2], cell[n, 3], cell[n, 4], cell[n, 5]
  }'
awk -F'\t' 'sub(/^NOT TESTED: /, "", $5) {print "*** NOT TESTED: " $1 ": " $5 " ***"}' "$WEIR_JOURNEYS"
exit $code
