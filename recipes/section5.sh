#!/usr/bin/env bash
# What the choices of sections 5 and 6.1 do, each measured on the validation set: label smoothing,
# checkpoint averaging, the length penalty, the order of batches, warm-up and the factor of the
# learning rate.
#
#   bash recipes/section5.sh                                     # Multi30k, all five
#   bash recipes/section5.sh penalty averaging --data-bin work/multi30k/data-bin --seeds 1,2,3
#   bash recipes/section5.sh --scale tiny                        # does everything run?
#
# Parts, which stand before the options:
#   smoothing   0, 0.1 and 0.2, each with every seed: perplexity and BLEU
#   averaging   the mean of the last 1, 2, 3, 5 and 10 of 20 checkpoints
#   penalty     alpha from 0 to 1.4
#   order       batches cut by the longer side, or as fairseq cuts them, each with every seed, until
#               they have seen the same number of target tokens: perplexity, BLEU, and BLEU of the mean
#               of the last 10 checkpoints
#   warmup      3 warm-ups x 4 factors, a quarter of the updates, the first seed
# averaging, penalty and order take smoothing's trainings with 0.1. With all parts that is 4 trainings
# for each seed and 12 of a quarter.
# Batch: 4,096 tokens x 1 GPU (or the CPU) x update-freq 1.
# Expected (Vaswani et al. 2017): smoothing hurts perplexity and helps BLEU; alpha 0.6 was chosen on a
# development set, as was a warm-up of 4,000 updates.
#
# --data DIR is handed to the recipe of the corpus. What it prepares lies in WORK/data, each training
# in WORK/models/NAME, the tables in WORK/section5.md, the plots in WORK/section5.png. A training
# that was cut off goes on.
set -euo pipefail

recipe=section5
# shellcheck source=recipes/lib/start.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/start.sh"
# shellcheck source=recipes/lib/prepared.sh
source "$VASWANI_ROOT/recipes/lib/prepared.sh"

stages=(prepare measure)
by_content=(measure)
splits_used=(train valid)
parts=()
arch='' max_tokens='' max_update='' warmup_updates='' lr_factor=''
beam=4
seeds=''
threads=1

recipe_usage() {
  cat <<'HELP'

Options of this recipe (defaults: full, --scale tiny):
  --corpus multi30k|tatoeba|quickstart   the recipe that prepares it (multi30k, quickstart)
  --pair en-de               for multi30k and tatoeba: also de-en, en-fr, fr-en
  --train-pairs N            the first N pairs of multi30k (all)
  --operations N             BPE merges of multi30k and tatoeba (10,000; 8,000)
  --data-bin DIR             binarized data instead of a corpus
  --arch NAME                (vaswani_tiny, vaswani_debug)
  --max-tokens N             of a batch, padded (4096, 500)
  --max-update N             (4000, 20)
  --warmup-updates N         (1000, 4)
  --lr-factor F              (1.79, 1: a highest rate of 5e-3 for vaswani_tiny)
  --beam N                   (4)
  --seeds S,S                (1,2,3; 1)
  --parallel N               trainings to run at the same time, each on --gpus / N GPUs (as many as
                             GPUs; 1 on a CPU)
  --threads N                CPU threads of each training (1)
HELP
}

recipe_option() {
  set_option "$@" arch max_tokens max_update warmup_updates lr_factor beam seeds parallel threads ||
    data_option "$@"
}

recipe_defaults() {
  local seed=1 # of the quickstart's sentences
  if [[ "$scale" == tiny ]]; then
    corpus=${corpus:-quickstart} arch=${arch:-vaswani_debug}
    max_tokens=${max_tokens:-500} max_update=${max_update:-20}
    warmup_updates=${warmup_updates:-4} lr_factor=${lr_factor:-1}
    seeds=${seeds:-1}
  else
    corpus=${corpus:-multi30k} arch=${arch:-vaswani_tiny}
    max_tokens=${max_tokens:-4096} max_update=${max_update:-4000}
    warmup_updates=${warmup_updates:-1000} lr_factor=${lr_factor:-1.79}
    seeds=${seeds:-1,2,3}
  fi
  need_counts max_tokens max_update warmup_updates beam threads
  choose_parallel
  need_number --lr-factor "$lr_factor"
  need_seeds --seeds "$seeds"
  ((max_update >= 20)) || die "--max-update $max_update: at least 20, one for each checkpoint"
  choose_data multi30k tatoeba quickstart
  if [[ "$scale" == tiny ]] && ((${#prepare_options[@]})); then prepare_options+=(--scale tiny); fi
}

set_flags() { # sets `flags`
  local key
  key=$(data_key)
  flags=(--work "$work" --data-bin "$data_bin" --data-key "$key" --title "$title" --arch "$arch"
    --seeds "$seeds" --max-tokens "$max_tokens" --max-update "$max_update"
    --warmup-updates "$warmup_updates" --lr-factor "$lr_factor" --beam "$beam"
    --threads "$threads" --gpus "$gpus")
}

key_measure() {
  local flags
  set_flags
  printf 'parts %s flags %s gpus each %s\n' "${parts[*]-}" "${flags[*]}" $((gpus / parallel))
}

stage_measure() {
  local flags
  set_flags
  run python "$lib/section5.py" ${parts[@]+"${parts[@]}"} "${flags[@]}" --parallel "$parallel"
}

while (($#)) && [[ "$1" != -* ]]; do
  parts+=("$1")
  shift
done
main_recipe "$@"
