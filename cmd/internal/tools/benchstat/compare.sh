#!/usr/bin/env bash
# Runs the benchmarks of a revision and of this work tree in turn, so that both have the
# same weather, and prints what changed. It never judges: a ratio says something when
# benchstat gives it a p below 0.05, and on a busy machine only cpu-ns/op, allocations
# and bytes do.
#
#   compare.sh REVISION [ROUNDS]     BENCH, TIME and PACKAGES choose what is run
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
base=${1:?usage: compare.sh REVISION [ROUNDS]} rounds=${2:-6}
bench=${BENCH:-Pump|Embedded|Check|Decode|Verdict|Step} time=${TIME:-0.5s}
read -ra packages <<<"${PACKAGES:-./events ./analyzer ./cmd/internal/pump ./cmd/internal/app}"
go=${GO:-go} here=$PWD

commit=$(git rev-parse --verify --quiet "$base^{commit}") || { echo "compare: $base is no revision" >&2; exit 2; }
dir=$(mktemp -d)
trap 'git worktree remove --force "$dir/tree" 2>/dev/null || true; rm -rf "$dir"' EXIT
git worktree add --quiet --detach "$dir/tree" "$commit"

for p in "${packages[@]}"; do
  name=$(tr -c 'a-z0-9\n' - <<<"$p")
  for side in base this; do
    tree=$here
    [ $side = this ] || tree=$dir/tree
    [ -d "$tree/$p" ] || { echo "compare: $p is not in $base" >&2; continue 2; }
    (cd "$tree" && $go test -c -o "$dir/$side$name" "$p")
  done
done
for round in $(seq "$rounds"); do
  echo "compare: round $round of $rounds" >&2
  for p in "${packages[@]}"; do
    name=$(tr -c 'a-z0-9\n' - <<<"$p")
    [ -x "$dir/this$name" ] || continue
    for side in base this; do
      tree=$here
      [ $side = this ] || tree=$dir/tree
      (cd "$tree/$p" && "$dir/$side$name" -test.run '^$' -test.bench "$bench" -test.benchmem -test.benchtime "$time") >>"$dir/$side.txt"
    done
  done
done
$go tool -modfile=cmd/internal/tools/benchstat/go.mod benchstat "base=$dir/base.txt" "this=$dir/this.txt"
