#!/usr/bin/env bash
# Runs targets of the Makefile one after another and prints what each costs: seconds on the clock,
# and seconds of CPU, which other work on the machine does not change. It ends at the first target
# that fails, with that target's exit code. At the end it repeats every line that starts with
# "*** NOT", which is how a target reports what it could not test.
#
# usage: stages.sh TARGET...        MAKE is the make to run; STAGES=FILE keeps the table in a file
set -uo pipefail
export LC_ALL=C
notes=$(mktemp) && output=$(mktemp) && cost=$(mktemp) || exit 1
trap 'rm -f "$notes" "$output" "$cost"' EXIT
TIMEFORMAT='%R %U %S'
table= code=0 all=0 cpu=0

for target; do
  echo "=== $target"
  { time "${MAKE:-make}" --no-print-directory "$target" 2>&1; } 2>"$cost" | tee "$output"
  code=${PIPESTATUS[0]}
  read -r wall user system < <(tail -n 1 "$cost")
  grep -h '^\*\*\* NOT' "$output" >>"$notes"
  verdict=passed
  [ $code = 0 ] || verdict="FAILED (exit code $code)"
  line=$(awk -v t="$target" -v w="$wall" -v c="$(awk "BEGIN {print $user + $system}")" -v v="$verdict" 'BEGIN {printf "%-16s %8.1f s %8.1f s CPU  %s", t, w, c, v}')
  echo "=== $line"
  table+="$line"$'\n'
  all=$(awk "BEGIN {print $all + $wall}") cpu=$(awk "BEGIN {print $cpu + $user + $system}")
  [ $code = 0 ] || break
done

table+=$(awk -v w="$all" -v c="$cpu" 'BEGIN {printf "%-16s %8.1f s %8.1f s CPU", "total", w, c}')
printf '\n%s\n' "$table"
[ -z "${STAGES:-}" ] || printf '%s\n' "$table" >"$STAGES"
cat "$notes"
exit $code
