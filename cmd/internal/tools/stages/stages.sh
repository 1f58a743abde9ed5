#!/usr/bin/env bash
# Runs targets of the Makefile one after another and prints what each costs: seconds on the clock,
# and seconds of CPU, which other work on the machine does not change. Targets that are joined by a
# plus run side by side. It ends at the first target that fails, with that target's exit code. At the
# end it repeats every line that starts with "*** NOT", which is how a target reports what it could
# not test.
#
# usage: stages.sh TARGET[+TARGET]...        MAKE is the make to run; STAGES=FILE keeps the table in a file
set -uo pipefail
export LC_ALL=C
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
TIMEFORMAT='%R %U %S'
table= code=0 cpu=0

# stage runs a target. Its output stays in a file, what it cost in another, and its exit code in a third.
stage() {
  { time "${MAKE:-make}" --no-print-directory "$1" 2>&1; } 2>"$dir/$1.cost" | tee "$dir/$1.output"
  echo "${PIPESTATUS[0]}" >"$dir/$1.code"
}

# report prints the line of a target that has ended, and adds it to the table.
report() {
  local wall user system line verdict=passed failed
  read -r wall user system < <(tail -n 1 "$dir/$1.cost")
  failed=$(cat "$dir/$1.code")
  [ "$failed" = 0 ] || verdict="FAILED (exit code $failed)"
  [ $code != 0 ] || code=$failed
  line=$(awk -v t="$1" -v w="$wall" -v c="$(awk "BEGIN {print $user + $system}")" -v v="$verdict" 'BEGIN {printf "%-16s %8.1f s %8.1f s CPU  %s", t, w, c, v}')
  echo "=== $line"
  table+="$line"$'\n'
  cpu=$(awk "BEGIN {print $cpu + $user + $system}")
}

for group; do
  IFS=+ read -r first others <<<"$group"
  # The first one writes as it goes; what the others write follows when it has ended.
  for target in ${others//+/ }; do stage "$target" >/dev/null & done
  echo "=== $group"
  stage "$first"
  wait
  report "$first"
  for target in ${others//+/ }; do
    cat "$dir/$target.output"
    report "$target"
  done
  [ $code = 0 ] || break
done

table+=$(awk -v w="$SECONDS" -v c="$cpu" 'BEGIN {printf "%-16s %8.1f s %8.1f s CPU", "total", w, c}')
printf '\n%s\n' "$table"
[ -z "${STAGES:-}" ] || printf '%s\n' "$table" >"$STAGES"
for file in "$dir"/*.output; do grep -h '^\*\*\* NOT' "$file"; done
exit $code
