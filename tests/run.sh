#!/usr/bin/env bash
# Runs test programs and scripts, as many at a time as there are processors ($JOBS overrides), each with
# no input and a time limit; prints what each printed when it ends, and one closing line.
# $COLFAM_WRAP is put before compiled programs and Python scripts (valgrind, env).
set -euo pipefail

if [ "${1:-}" != --one ]; then
  RESULTS=$(mktemp -d)
  export RESULTS
  trap 'rm -rf "$RESULTS"' EXIT
  # Check's own limit is 4 seconds a test case, meant for an idle machine.
  export CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-20}
  export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1}
  export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
  printf '%s\0' "$@" | xargs -0 -P "${JOBS:-$(nproc)}" -n 1 bash "$0" --one || true
  failed=$(find "$RESULTS" -name '*.failed' | sort)
  for name in $failed; do echo "FAILED: $(basename "$name" .failed)"; done
  echo "tests: $(find "$RESULTS" -name '*.passed' | wc -l) passed, $(wc -w <<<"$failed") failed"
  ended=$(find "$RESULTS" -name '*ed' | wc -l)
  [ -z "$failed" ] && [ "$ended" -eq $# ]
  exit
fi

test=$2
name=$(basename "$test")
read -ra wrap <<<"${COLFAM_WRAP:-}"
case $test in
*.sh) command=(bash "$test") ;;
*.py) command=("${wrap[@]}" /usr/bin/python3 -B "$test") ;;
*) command=("${wrap[@]}" "$test") ;;
esac
result=passed
SECONDS=0
timeout "${LIMIT:-500}" "${command[@]}" </dev/null >"$RESULTS/$name.log" 2>&1 || result=failed
exec 9>"$RESULTS/lock"
flock 9
echo "== $name: $result after $SECONDS s"
cat "$RESULTS/$name.log"
mv "$RESULTS/$name.log" "$RESULTS/$name.$result"
