#!/usr/bin/env bash
# Everything that wants a GPU, on one of them, in about twelve minutes: the tests of tests/gpu, training base
# and big in bf16 beside both stocks, decoding base beside stock and CTranslate2, and a profile of base.
#
#   bash recipes/benchmarks/gpu.sh DIR          writes DIR/gpu-report.md (default: work/gpu)
#   bash recipes/benchmarks/gpu.sh --cpu DIR    a rehearsal with vaswani_debug
#
# A part that fails is reported, and the others are done; the exit code is then 1. Batch: --max-tokens (25,000
# where the GPU has 60 GB, else 4,096) x 1 process x update-freq 1. Expected: at least 1.5 times stock's target
# tokens/s in at most 0.6 of its memory; decoding was not measured yet.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
VASWANI_GROUPS="test" source "$(dirname "$0")/../lib/env.sh"
benchmarks=$VASWANI_ROOT/recipes/benchmarks cpu='' work=$VASWANI_ROOT/work/gpu
die() { printf 'gpu.sh: error: %s\n' "$2" >&2 && exit "$1"; } # EXIT-CODE MESSAGE
for word in "$@"; do case $word in
  --cpu) cpu=--cpu ;;
  -*) die 2 "$word: there is no such option; --cpu rehearses, and a folder is where the report goes" ;;
  *) work=$word ;;
esac done
if [[ -n $cpu ]]; then
  sizes=(debug) arch=vaswani_debug seconds=1500
  flags=(--device cpu --max-tokens 400 --updates 3 --repetitions 1 --vocabulary 1000 --pairs 500)
  decoding=(--sentences 16)
else
  memory=$(python -c 'import torch as t; print(t.cuda.is_available() and t.cuda.mem_get_info()[1] >> 20)')
  [[ $memory != False ]] || die 1 'PyTorch finds no GPU on this machine; --cpu rehearses'
  sizes=(base big) arch=vaswani_base seconds=400
  flags=(--device gpu --precision bf16 --max-tokens $((memory > 60000 ? 25000 : 4096)) --updates 15)
  decoding=(--sentences 2000 --gpu)
fi
mkdir -p "$work" && work=$(cd "$work" && pwd -P)
report=$work/gpu-report.md failed=''

part() { # NAME COMMAND...: what it prints goes into the report, or how it failed
  printf '\n## %s\n\n' "$1" | tee -a "$report"
  local code=0
  timeout --foreground -s INT -k 10 "$seconds" "${@:2}" 2>"$work/$1.log" | tee -a "$report" || code=$?
  ((code == 0)) && return
  ((code != 130)) || die 130 'stopped'
  failed="**Failed**: $(tail -n 1 "$work/$1.log")"
  if ((code == 124)); then failed="**Failed**: it took more than $seconds s"; fi
  printf '\n%s\n' "$failed" | tee -a "$report"
}
printf '# Report of gpu.sh\n' >"$report"
part tests python -m pytest -q -rs -m gpu -p no:cacheprovider -n 4 "$VASWANI_ROOT/tests/gpu"
training=(python "$benchmarks/training.py" "${flags[@]}" --work "$work/training")
for size in "${sizes[@]}"; do part "training-$size" "${training[@]}" --sizes "$size"; done
data=$(echo "$work"/training/synthetic-*) model=$work/hardly-trained-$arch # for outputs of the same length, one update will do
part checkpoint env LOGLEVEL=WARNING fairseq-train "$data" --user-dir "$VASWANI_ROOT/vaswani_plugin" --arch $arch --positions sinusoidal-fairseq \
  --max-tokens 400 --max-update 1 --seed 1 --num-workers 0 --disable-validation --no-epoch-checkpoints --save-dir "$model" --no-progress-bar $cpu
part decoding python "$benchmarks/decoding.py" --alone --data-bin "$data" --model "$model/checkpoint_last.pt" \
  --work "$work/decoding" --output-length 28 --repetitions 1 "${decoding[@]}"
part profile "${training[@]}" --sizes "${sizes[0]}" --sides ours --repetitions 1 --profile
[[ -z $failed ]] || die 1 "a part failed; the report is $report"
