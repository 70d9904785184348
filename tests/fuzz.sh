#!/usr/bin/env bash
# Runs fuzz targets built with libFuzzer for $FUZZ_SECONDS each (20), as many at a time as there are processors
# ($JOBS overrides): tests/fuzz.sh PROGRAM...   One closing line a target, with executions and coverage.
#
# What is found is added to $BUILD/corpus/<name>, where a later run goes on; an input that fails stays in
# $BUILD/failures.
set -euo pipefail

if [ "${1:-}" != --one ]; then
  printf '%s\0' "$@" | xargs -0 -P "${JOBS:-$(nproc)}" -n 1 bash "$0" --one
  exit
fi

program=$2
name=$(basename "$program")
corpus=$BUILD/corpus/${name#fuzz_} seeds=tests/corpus/${name#fuzz_}
log=$BUILD/$name.log
mkdir -p "$corpus" "$BUILD/failures"
# Caches keep memory between inputs, which libFuzzer takes for leaks again and again: looked for at the end only.
options=(-detect_leaks=0 -max_total_time="${FUZZ_SECONDS:-20}" -timeout=20 -malloc_limit_mb=1200 -rss_limit_mb=2048
  -reload=0 -print_final_stats=1 -artifact_prefix="$BUILD/failures/$name-")
[ -e "$seeds.dict" ] && options+=(-dict="$seeds.dict")
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

SECONDS=0
result='0 failed' code=0
"$program" "${options[@]}" "$corpus" "$seeds" </dev/null >"$log" 2>&1 || code=$?
if [ "$code" -ne 0 ]; then
  result='FAILED'
  tail -n 60 "$log"
fi
runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
echo "$name: ${runs:-0} executions in $SECONDS s, ${coverage:-0} edges covered, $result"
exit "$((code > 0))"
