#!/usr/bin/env bash
# Programs again under each order of keys that is not the columns' own ($COLFAM_TEST_COMPARATOR):
#
#   tests/orders.sh PROGRAM...            each under all of them, some once as they are
#   QUICK=1 tests/orders.sh PROGRAM...    each under one, in turn, the slow ones under none
#   ORDERS=reverse tests/orders.sh ...    under these alone
#
# What goes through SQL makes every table that names no other order reverse, ordered by a sort-key encoder or
# by a comparator (ext/orders_test.c). The engine's own tests (test_*) give their stores a comparator
# (tests/harness_comparator.h); there the encoder has nothing to do, and test-forwards, bytewise order by a
# comparator, takes its place.
set -euo pipefail
cd "$(dirname "$0")/.."

# They make stores and tables of these orders themselves: once, as they are, in the full form.
own=" sql_orders test_custom test_engine test_read_order "
# Program, orders that it is not run under (all: none is left), and why.
left_out="
core_costs       all     counts for minutes what a row of large transactions costs, whatever its key
core_row         all     says how rows are stored, byte by byte
core_schema      reverse says which way columns are stored
fuzz_sql         all     its statements are free to have outcomes that depend on which row comes first
"
# The engine's tests with an order to choose, and the orders among whose expectations they are: others have
# places of keys written into them, which test-forwards keeps. All that are not named here know no order.
engine="
test_batch          test-forwards,reverse,test-backwards
test_check          test-forwards,reverse,test-backwards
test_compact        test-forwards,reverse
test_compact_merge  test-forwards,reverse
test_copy           test-forwards,reverse,test-backwards
test_family         test-forwards,reverse
test_memtable       test-forwards,reverse,test-backwards
test_merge          test-forwards
test_read           test-forwards
test_read_multi     test-forwards,reverse,test-backwards
test_salvage        test-forwards
test_scan           test-forwards
test_table          test-forwards
test_table_faults   test-forwards,reverse,test-backwards
test_values         test-forwards
test_verify         test-forwards
test_view           test-forwards
"
# Not in the quick form: seconds each, and what they do to an order others do too.
slow=" core_backup core_inspect core_memory core_plan crash_kill crash_power crash_processes fault_sql
 fuzz_shadow model_busy model_schedules model_schemas model_txn sql_authorizer sql_background
 sql_collations sql_disk_full sql_footprint sql_host sql_inlists sql_interrupt sql_levels sql_numerals
 sql_patterns sql_predicates sql_races sql_short_writers sql_spill sql_threads sql_values test_salvage
 test_scan "

runs_under() { # PROGRAM ORDER
  local name=$1 order=$2 table=$left_out column
  [[ $own != *" $name "* ]] || return 1
  [[ $name == test_* ]] && table=$engine
  column=$(awk -v name="$name" '$1 == name { print "," $2 "," }' <<<"$table")
  case $name in
  test_*) [ "$order" = test-encoder ] && order=test-forwards; [[ $column == *",$order,"* ]] ;;
  *) [[ $column != ",all," && $column != *",$order,"* ]] ;;
  esac
}

in_form() { # PROGRAM ITS_TURN TURN
  [ -z "${QUICK:-}" ] || { [ "$2" -eq "$3" ] && [[ $slow != *[[:space:]]"$1"[[:space:]]* ]]; }
}

run() { # ORDER PROGRAM...
  local order=$1
  shift
  [ $# -gt 0 ] || return 0
  echo "== comparator = ${order:-their own}: $# programs"
  env ${order:+"COLFAM_TEST_COMPARATOR=$order"} bash tests/run.sh "$@" || failed=1
}

failed=
by_themselves=()
for program in "$@"; do
  [[ -n "${QUICK:-}" || $own != *" $(basename "$program") "* ]] || by_themselves+=("$program")
done
[ -n "${ORDERS:-}" ] || run "" "${by_themselves[@]}"

turn=-1
for order in reverse test-encoder test-backwards; do
  turn=$((turn + 1))
  [[ " ${ORDERS:-$order} " == *" $order "* ]] || continue
  through_sql=() engine_alone=() place=0
  for program in "$@"; do
    name=$(basename "$program")
    place=$((place + 1))
    if ! runs_under "$name" "$order" || ! in_form "$name" $((place % 3)) $turn; then continue; fi
    if [[ $name == test_* ]]; then engine_alone+=("$program"); else through_sql+=("$program"); fi
  done
  run "$order" "${through_sql[@]}"
  [ $order = test-encoder ] && order=test-forwards
  run "$order" "${engine_alone[@]}"
done
[ -z "$failed" ]
