#!/usr/bin/env bash
# The ancestors: trains LSTM encoder-decoders, fairseq's ConvS2S and the Transformer on one data set,
# each with the same budget and number of parameters, and compares their BLEU, and the FLOPs and the
# time that it costs, in two tables and five plots. From one LSTM to the next the decoder sees more of
# the source, from one state to scaled dot-product attention.
#
#   bash recipes/ancestors.sh                                  # Multi30k, 15 minutes a training
#   bash recipes/ancestors.sh forwards seq2seq --data-bin work/multi30k/data-bin --seeds 1,2
#   bash recipes/ancestors.sh seq2seq attention convolution transformer --seeds 1,2,3 --parallel 2
#   bash recipes/ancestors.sh attention transformer --corpus tatoeba --max-update 4000
#   bash recipes/ancestors.sh --scale tiny                     # checks that everything runs
#
# Models (name them before the options; default: all but sweep):
#   forwards, seq2seq   the encoder's last state, of a source read forwards or backwards (Sutskever
#                       et al. 2014)
#   both-ways           the last states of a Bi-LSTM
#   mean                a constant context at every step: the mean of the Bi-LSTM's states
#   additive            attention by a small network (Bahdanau et al. 2014)
#   attention, scaled   attention by dot products (Luong et al. 2015), divided by sqrt(d) or not
#   convolution, transformer   Gehring et al. 2017; Vaswani et al. 2017
#   sweep               the Transformer with d_k of 8, 32, 128 and 512, its scores divided by
#                       sqrt(d_k) or not (--attention-scale)
# With 10,000 subwords all models have 2.5 to 2.6 million parameters, except for the wider ones of the
# sweep; the table prints the numbers. Their training:
#   all           Adam (0.9, 0.98, 1e-9), the learning rate of Eq. 3 (warm-up, then inverse square
#                 root), dropout 0.1; 2,048 tokens x 1 CPU or GPU per update
#   LSTMs         peak rate 8e-3 (4e-3 with attention or a context at every step), gradients clipped
#                 to norm 5, no label smoothing: the plugin's defaults for them. Sutskever et al.'s
#                 SGD needs days rather than minutes.
#   convolution   peak rate 2e-3, gradients clipped to norm 0.1 (Gehring et al.), label smoothing
#                 0.1. Gehring et al. train with Nesterov's momentum.
#   transformer   peak rate 2.5e-3, label smoothing 0.1
# The budget is training time in seconds, counted once the model is built, or updates with
# --max-update. At --points points of it each model is validated (about a second a point, counted) and
# translates the validation set greedily (not counted). At the end it translates the test set, beam 4,
# alpha 0.6. No checkpoints are averaged.
# Expected: seq2seq < attention < transformer; reversing the source helps (Sutskever et al. 2014).
#
# --data DIR goes to the recipe of the corpus. The data are in WORK/data, each training in
# WORK/models/MODEL-SEED (`vaswani curves WORK/models/*-[0-9]*` compares them), and the table in
# WORK/ancestors.md, .csv and .png.
set -euo pipefail

recipe=ancestors
# shellcheck source=recipes/lib/start.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/start.sh"
# shellcheck source=recipes/lib/prepared.sh
source "$VASWANI_ROOT/recipes/lib/prepared.sh"

stages=(prepare models table)
by_content=(models)
splits_used=(train valid test)
models=()
budget_seconds='' max_update='' points='' max_tokens='' warmup_updates=''
seeds=1
threads=1
parallel=1

recipe_usage() {
  cat <<'HELP'

Options of this recipe (in brackets: the defaults of --scale full, of --scale tiny):
  --corpus multi30k|tatoeba|quickstart   data set, by its recipe (multi30k, quickstart)
  --pair en-de               languages, for multi30k and tatoeba: also de-en, en-fr, fr-en
  --train-pairs N            the first N pairs of multi30k (all)
  --operations N             BPE merges of multi30k and tatoeba (10,000; 8,000)
  --data-bin DIR             binarized data in a recipe's work folder, instead of --corpus
  --budget-seconds N         training time of each model (900)
  --max-update N             updates of each model, instead of a time (none, 6)
  --points N                 validations and translations during the training, the end included (6, 2)
  --max-tokens N             tokens in a batch, padding included (2048, 500)
  --warmup-updates N         updates during which the learning rate rises (200, 4)
  --seeds S,S                random seeds of each model (1)
  --parallel N               trainings to run at the same time, each on --gpus / N GPUs; on a CPU
                             they share the memory's bandwidth, so that within a time each has fewer
                             updates than alone (1)
  --threads N                CPU threads of each training (1)
HELP
}

recipe_option() {
  set_option "$@" budget_seconds max_update points max_tokens warmup_updates seeds parallel threads ||
    data_option "$@"
}

recipe_defaults() {
  local seed=1
  [[ -z "$budget_seconds" || -z "$max_update" ]] || die "--budget-seconds and --max-update: give one"
  if [[ "$scale" == tiny ]]; then
    corpus=${corpus:-quickstart} points=${points:-2}
    max_tokens=${max_tokens:-500} warmup_updates=${warmup_updates:-4}
    if [[ -z "$budget_seconds" ]]; then max_update=${max_update:-6}; fi
  else
    corpus=${corpus:-multi30k} points=${points:-6}
    max_tokens=${max_tokens:-2048} warmup_updates=${warmup_updates:-200}
    if [[ -z "$max_update" ]]; then budget_seconds=${budget_seconds:-900}; fi
  fi
  if [[ -n "$max_update" ]]; then need_counts max_update; fi
  if [[ -n "$budget_seconds" ]]; then need_counts budget_seconds; fi
  need_counts points max_tokens warmup_updates threads
  choose_parallel
  need_seeds --seeds "$seeds"
  if [[ -n "$max_update" ]] && ((points > max_update)); then
    die "--points $points: more than --max-update $max_update"
  fi
  choose_data multi30k tatoeba quickstart
  if [[ "$scale" == tiny ]] && ((${#prepare_options[@]})); then prepare_options+=(--scale tiny); fi
}

set_flags() { # sets `flags`: the flags of both scripts
  local key
  key=$(data_key)
  flags=(--work "$work" --data-bin "$data_bin" --data-key "$key" --seeds "$seeds"
    --budget-seconds "${budget_seconds:-0}" --max-update "${max_update:-0}" --points "$points"
    --max-tokens "$max_tokens" --warmup-updates "$warmup_updates" --threads "$threads"
    --gpus "$gpus" --parallel "$parallel")
}

key_models() {
  local flags
  set_flags
  printf 'models %s flags %s\n' "${models[*]-}" "${flags[*]}"
}

stage_models() {
  local flags
  set_flags
  run_models "$lib/ancestors_train.py" ${models[@]+"${models[@]}"} "${flags[@]}"
}

key_table() { key_models; }

stage_table() {
  local flags
  set_flags
  run python "$lib/ancestors_report.py" "${flags[@]}" --title "$title"
}

while (($#)) && [[ "$1" != -* ]]; do
  models+=("$1")
  shift
done
main_recipe "$@"
