#!/usr/bin/env bash
# Switches off one rule of durability after another (COLFAM_MUTANT, in the test build) and expects the power
# loss test to fail each time: tests/mutants.sh PROGRAM. A mutant that passes is a hole in the test.
set -uo pipefail

program=$1
rules=(
  sync            # table files are not synced
  sync-dir        # nor is their directory
  sync-parent     # nor the directory of the database, for the directory's entry and as proof of removal
  removal-proof   # files are removed with the commit that drops them
  publish-recheck # work is published without a look at what it was computed from
  host-sync       # SQLite's own files are not synced: the disk itself is what is tested
)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
survived=0
for rule in "${rules[@]}"; do
  if COLFAM_MUTANT=$rule "$program" >"$log" 2>&1; then
    echo "mutant $rule: NOT FOUND"
    survived=$((survived + 1))
  elif grep -aq ':F:' "$log"; then
    echo "mutant $rule: found in $(grep -ac ':F:' "$log") slices"
    grep -a -m 1 ':F:' "$log" | cut -c 1-200
  else
    echo "mutant $rule: the program did not get as far as a check"
    tail -n 5 "$log"
    survived=$((survived + 1))
  fi
done
echo "mutants: ${#rules[@]} tried, $survived not found"
[ "$survived" -eq 0 ]
