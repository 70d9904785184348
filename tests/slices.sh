#!/usr/bin/env bash
# Long runs of a seeded program, in slices that can be interrupted: tests/slices.sh PROGRAM STEPS SLICE SEEDS
# runs STEPS steps, SLICE at a time; one slice takes SEEDS seeds. Where the round stands is kept in
# $BUILD/slices/<program>: the next seed, the steps of this round, the steps of all rounds. A run that was
# stopped goes on there, at the slice that it was in; a new round takes seeds that none had before.
set -euo pipefail

program=$1 steps=$2 slice=$3 seeds=$4
state=$BUILD/slices/$(basename "$program")
mkdir -p "$(dirname "$state")"
seed=1000001 round=0 all=0
[ -e "$state" ] && read -r seed round all <"$state"
[ "$round" -ge "$steps" ] && round=0
while [ "$round" -lt "$steps" ]; do
  COLFAM_SEED=$seed COLFAM_STEPS=$slice "$program" ||
    { echo "FAILED: COLFAM_SEED=$seed COLFAM_STEPS=$slice $program"; exit 1; }
  seed=$((seed + seeds)) round=$((round + slice)) all=$((all + slice))
  echo "$seed $round $all" >"$state.new"
  mv "$state.new" "$state"
  echo "$(basename "$program"): $round of $steps, $all in all rounds"
done
