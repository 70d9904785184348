#!/usr/bin/env bash
# Long runs in slices, which may be stopped at any time and go on where they were:
#
#   tests/slices.sh SUITE [N]      N more of it; without N, until the figure of the list below is reached
#   tests/slices.sh all [SECONDS]  all suites, always the one that is furthest from its figure
#   tests/slices.sh report         what was reached, as a table
#
# A slice that passed is a line of $BUILD/slices/SUITE: date, commit, first seed, count, seconds. The next one
# takes seeds that none had before. To keep what was reached, copy the folder; to begin anew, remove it. A
# slice that failed is tried again by the next run, with the same seeds.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${BUILD:-build}/slices
tests=${BUILD:-build}/tests

# suite, figure, count of a slice, seeds of a slice, what the program is told, program
suites="
differential 20000000 100000 250 COLFAM_STEPS=100000 $tests/sql_differential
power        2000000  50000  20  COLFAM_STEPS=50000  $tests/crash_power
shell        10000    500    1   COLFAM_STEPS=500     tests/shell_check.py
damage       4750000  190000 1   COLFAM_STEPS=190000 $tests/test_damage
damage-sql   250000   10000  1   COLFAM_STEPS=10000  $tests/sql_damage
faults       70       14     1   COLFAM_SCENARIOS=14 $tests/fault_sql
fuzz         1800     60     1   FUZZ_SECONDS=60     make fuzz
soak         3600     300    1   SOAK_SECONDS=300    $tests/soak
"

field() { # SUITE COLUMN...: the rest of its line from that column on
  awk -v suite="$1" -v column="$2" '$1 == suite { for (i = 1; i < column; i++) sub(/^[^ ]+ +/, ""); print }' \
    <<<"$suites"
}
names() { awk 'NF { print $1 }' <<<"$suites"; }
value() { field "$1" "$2" | cut -d' ' -f1; }

total() { awk '{ n += $4 } END { print n + 0 }' "$folder/$1" 2>/dev/null || echo 0; }

next_seed() { # SUITE
  local seeds
  seeds=$(value "$1" 4)
  awk -v seeds="$seeds" '{ last = $3 + seeds } END { print last ? last : 1000001 }' "$folder/$1" 2>/dev/null ||
    echo 1000001
}

commit() { git rev-parse --short HEAD 2>/dev/null || echo -; }

slice() { # SUITE
  local seed count told program
  seed=$(next_seed "$1") count=$(value "$1" 3) told=$(value "$1" 5)
  read -ra program <<<"$(field "$1" 6)"
  SECONDS=0
  env COLFAM_SEED="$seed" "$told" "${program[@]}" </dev/null ||
    { echo "FAILED: COLFAM_SEED=$seed $told ${program[*]}"; return 1; }
  mkdir -p "$folder"
  echo "$(date -u +%FT%TZ) $(commit) $seed $count $SECONDS" >>"$folder/$1"
  echo "$1: $(total "$1") of $(value "$1" 2)"
}

# The suite with the smallest part of its figure done; none when all are there.
furthest() {
  local name
  for name in $(names); do
    echo "$(total "$name") $(value "$name" 2) $name"
  done | awk '$1 < $2 { part = $1 / $2; if (!found || part < least) { least = part; found = $3 } } END { print found }'
}

report() {
  local name
  echo "| suite | figure | reached | slices | hours | first | last |"
  echo "|---|---|---|---|---|---|---|"
  for name in $(names); do
    [ -e "$folder/$name" ] || continue
    awk -v name="$name" -v figure="$(value "$name" 2)" '
      NR == 1 { first = substr($1, 1, 10) }
      { n += $4; seconds += $5; last = substr($1, 1, 10) }
      END { printf "| %s | %d | %d | %d | %.1f | %s | %s |\n", name, figure, n, NR, seconds / 3600, first, last }
    ' "$folder/$name"
  done
}

case $1 in
report) report ;;
all)
  end=$(($(date +%s) + ${2:-1000000000}))
  while [ "$(date +%s)" -lt $end ] && name=$(furthest) && [ -n "$name" ]; do slice "$name"; done
  report
  ;;
*)
  [ -n "$(field "$1" 1)" ] || { echo "slices.sh: no suite '$1'" >&2; exit 2; }
  goal=$(value "$1" 2)
  [ -n "${2:-}" ] && goal=$(($(total "$1") + $2))
  while [ "$(total "$1")" -lt "$goal" ]; do slice "$1"; done
  ;;
esac
