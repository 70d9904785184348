#!/usr/bin/env bash
# Switches off one rule of durability after another (COLFAM_MUTANT, in the test build and the test's disk) and
# expects the power loss test to fail each time: tests/mutants.sh PROGRAM [RULE...]. A mutant that passes is a
# hole in the test. Each has the mode and histories where it must be found, and where all is well without it;
# or another program beside that one, for rules that take two processes, and for the account of jobs.
set -uo pipefail

program=$1
shift
rules=(
  "sync               WAL/FULL        mixed      table files are synced"
  "sync-dir           WAL/FULL        mixed      and their directory"
  "sync-parent        WAL/FULL        mixed      and the entry of that one"
  "proof-wal          WAL/NORMAL      mixed      WAL: files go when a checkpoint proves the drop"
  "proof-delete       DELETE/FULL     mixed      DELETE: when the journal's removal is durable"
  "proof-delete       DELETE/NORMAL   mixed      likewise"
  "proof-sync         DELETE/NORMAL   mixed      for which the directory is synced"
  "proof-truncate     TRUNCATE/NORMAL mixed      TRUNCATE: with the next commit"
  "proof-truncate     TRUNCATE/NORMAL exclusive  under an exclusive lock too"
  "publish-recheck    DELETE/FULL     mixed      work that waits is held against what it was computed from"
  "publish-recheck    WAL/NORMAL      attached   likewise"
  "sweep-names        DELETE/FULL     tables     what a manifest names is no orphan"
  "sweep-lock         sql_orphans     -          nor what somebody has locked"
  "sweep-age          TRUNCATE/NORMAL tables     an orphan of this commit is no older than it"
  "merge-entry        test_compact_account - a merge that loses an entry is noticed"
  "tombstone-dropped  test_compact_account - a tombstone left out uncounted is noticed"
  "copy-sync          WAL/FULL        backup     a copy's table files are synced"
  "copy-sync-dir      WAL/FULL        backup     and their directory"
  "copy-sync-parent   WAL/FULL        backup     and the entry of that one"
  "copy-sync-database WAL/FULL        backup     and the copied database"
  "copy-sync-name     WAL/FULL        backup     and its name"
  "host-journal       DELETE/FULL     mixed      SQLite's own syncs, to see that the disk is harsh: the journal"
  "host-database      PERSIST/FULL    mixed      the database"
  "host-wal           WAL/FULL        mixed      the log"
  "host-super         DELETE/FULL     attached   the journal of several files"
  "host-entry         DELETE/NORMAL   mixed      the journal's entry"
  "host-removal       DELETE/EXTRA    mixed      its removal"
)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
tried=0 survived=0

# Fails at the first wrong state, so the number is an upper limit.
run() {
  if [ "$3" = - ]; then
    COLFAM_MUTANT=$1 COLFAM_SO=$COLFAM_TEST_SO "$(dirname "$program")/$2" >"$log" 2>&1
    return
  fi
  COLFAM_MUTANT=$1 COLFAM_MODE=$2 COLFAM_HISTORY=$3 COLFAM_STATES=${4:-20000} "$program" >"$log" 2>&1
}

missed() {
  echo "mutant $rule in $mode, $history: $1"
  tail -n 3 "$log"
  survived=$((survived + 1))
}

for line in "${rules[@]}"; do
  read -r rule mode history what <<<"$line"
  [ $# -eq 0 ] || [[ " $* " == *" $rule "* ]] || continue
  tried=$((tried + 1))
  if ! run none "$mode" "$history" 200; then
    missed "fails without it"
  elif run "$rule" "$mode" "$history"; then
    missed "NOT FOUND ($what)"
  elif grep -aq ':F:' "$log"; then
    echo "mutant $rule in $mode, $history: found ($what)"
    grep -a -m 1 ':F:' "$log" | cut -c 1-200
  else
    missed "the program did not get as far as a check"
  fi
done
echo "mutants: $tried tried, $survived not found"
[ "$survived" -eq 0 ]
