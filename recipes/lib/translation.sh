#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what the recipes read, and what they set
#
# What translation recipes share. Each sources this file, states only its differences, and ends
# with `main_recipe "$@"`:
#   corpus.sh   where the text comes from: the stages fetch and unpack
#   text.sh     what becomes of it: the stages tokenize to binarize
#   here        the stages train to translate, and the settings below
#   score.sh    the stages score and bundle
# It defines recipe_defaults, which ends by `check_translation_options`, and, where it has options
# of its own, recipe_option. WORK then holds raw/ (as people write), tok/ (words), clean/, bpe/ or
# wordpiece/, data-bin/, checkpoints/, averaged.pt, output/, model/ (the bundle), result.json.

# shellcheck source=recipes/lib/start.sh
source "$(dirname "${BASH_SOURCE[0]}")/start.sh"
# shellcheck source=recipes/lib/corpus.sh
source "$VASWANI_ROOT/recipes/lib/corpus.sh"
# shellcheck source=recipes/lib/text.sh
source "$VASWANI_ROOT/recipes/lib/text.sh"
# shellcheck source=recipes/lib/score.sh
source "$VASWANI_ROOT/recipes/lib/score.sh"

stages=(fetch unpack tokenize clean subwords binarize train average translate score bundle)
by_content=(unpack train translate)

pair=en-de
arch=''
default_arch=vaswani_tiny
seed=1
max_tokens=8192
max_update=8000
max_epoch=0
warmup_updates=2000
lr_factor=1.0
save_interval=0 # updates; see average_over
update_freq=''
# The number of GPUs that the batch is meant for: with fewer, each accumulates several batches
# before an update. 0: a batch of --max-tokens on each of the available GPUs.
batch_gpus=0
real_tokens='' # of a batch, a side: --max-tokens is lowered to it; none: --max-tokens as it is
dropout='' # none: the architecture's own
batch_order=fairseq
# No options:
average=10          # checkpoints, the last ones
average_over=epochs # or updates: those written every `save_interval` updates, and the final state;
                    # or best, of these
patience=0          # with best: stop after so many validations without a better one
continued=0         # how many times a training that had ended was continued
model_options=()    # of fairseq-train
beam=4
title=''             # of the last line

plugin=$VASWANI_ROOT/vaswani_plugin

schedule_usage() { # the options of every training
  cat <<HELP
  --update-freq N          batches per update and GPU; gradients accumulate (see Batch above)
  --max-update N           updates of the training (${max_update:-by --arch})
  --max-epoch N            epochs of the training (no limit)
  --warmup-updates N       updates during which the learning rate rises (${warmup_updates})
  --lr-factor F            factor of the learning rate of Eq. 3 (${lr_factor})
  --dropout P              dropout probability (${dropout:-by --arch})
  --seed S                 random seed (${seed})
HELP
}

recipe_usage() {
  cat <<HELP

Options of every translation recipe (in brackets: the default of this one):
  --arch NAME              architecture, see \`vaswani archs\` (${default_arch}; --scale tiny: vaswani_debug)
  --max-tokens N           tokens of the longer side in a batch, padding included, per GPU (${max_tokens})
$(schedule_usage)
  --save-interval-updates N   updates between checkpoints ($(default_save_interval))
  --batch-order ORDER      fairseq: as fairseq makes batches; longer-side: batches with little padding
                           (${batch_order})
  --padding-factor N       round the rows of the embedding matrix up to a multiple of N (${padding_factor})
  --bpe-dropout P          split the training text in ${samples} ways, each merge of BPE left out with probability P
                           (none); the average is then over checkpoints of every hundredth of the training
HELP
}

default_save_interval() {
  if [[ "$save_interval" != 0 ]]; then
    echo "${save_interval:-by --arch}"
  elif [[ "$average_over" == epochs ]]; then
    echo 'one each epoch'
  else
    echo 'by the number of updates'
  fi
}

recipe_option() { translation_option "$@"; }

translation_option() { # NAME VALUE: the options of every translation recipe
  set_option "$@" padding_factor batch_order bpe_dropout || training_option "$@"
}

training_option() { # NAME VALUE: the options of every training, also of other tasks
  case $1 in
    --max-tokens) max_tokens=$2 real_tokens='' ;;
    --save-interval-updates) need_count "$1" "$2" && save_interval=$2 ;;
    *) set_option "$@" arch seed max_update max_epoch warmup_updates lr_factor dropout update_freq ;;
  esac
}

check_translation_options() {
  if [[ "$scale" == tiny ]]; then use_tiny_scale; fi
  arch=${arch:-$default_arch}
  need_counts seed max_tokens max_update warmup_updates padding_factor
  [[ "$batch_order" =~ ^(fairseq|longer-side)$ ]] ||
    die "--batch-order $batch_order: must be fairseq or longer-side"
  [[ "$max_epoch" == 0 ]] || need_counts max_epoch
  [[ "$save_interval" == 0 ]] || need_count --save-interval-updates "$save_interval"
  need_number --lr-factor "$lr_factor"
  if [[ -n "$dropout" ]]; then need_number --dropout "$dropout"; fi
  if [[ -n "$bpe_dropout" ]]; then
    check_bpe_dropout
    if [[ "$average_over" == epochs ]]; then # an epoch would be too long to average over
      average_over=updates
      if [[ "$save_interval" == 0 ]]; then save_interval=$(((max_update + 99) / 100)); fi
    fi
  fi
  [[ "$arch" =~ ^[A-Za-z0-9_]+$ ]] || die "--arch $arch: no name of an architecture (see \`vaswani archs\`)"
  choose_update_freq
  source_lang=${pair%-*}
  target_lang=${pair#*-}
  choose_layout
}

# Limits for a test run of about a minute.
use_tiny_scale() {
  arch=${arch:-vaswani_debug}
  if ((max_update > 20)); then max_update=20; fi
  if ((warmup_updates > 10)); then warmup_updates=10; fi
  if ((max_tokens > 2048)); then max_tokens=2048; fi
  if ((save_interval > 3)); then save_interval=3; fi
  if ((operations > 400)); then operations=400; fi
  if ((threshold > 5)); then threshold=5; fi
  lines=(600 60 60)
  pairs=(300 30 30)
  batch_gpus=0
  real_tokens=''
}

choose_update_freq() {
  local workers
  workers=$(all_workers)
  if [[ -n "$update_freq" ]]; then
    need_counts update_freq
  elif ((batch_gpus == 0)); then
    update_freq=1
  else
    ((batch_gpus % workers == 0)) ||
      die "$(workers_said): batches for $batch_gpus GPUs can't be shared out evenly; give --update-freq N too, for a batch of $workers x N x $max_tokens tokens"
    update_freq=$((batch_gpus / workers))
  fi
}

# The options that determine a training; while they are unchanged, it can be continued.
training_key() { translation_training_key; }

translation_training_key() {
  work_digests 'data-bin/train.*' 'data-bin/valid.*' 'data-bin/dict.*'
  local tokens="$max_tokens${real_tokens:+ real $real_tokens}"
  if [[ "$batch_order" != fairseq ]]; then tokens+=" order $batch_order"; fi
  printf 'arch %s seed %s max-tokens %s update-freq %s warmup %s factor %s dropout %s device %s\n' \
    "$arch" "$seed" "$tokens" "$update_freq" "$warmup_updates" \
    "$lr_factor" "$dropout" "$(device_key)"
}

key_train() {
  training_key
  printf 'updates %s epochs %s save-interval %s\n' "$max_update" "$max_epoch" "$save_interval"
  if [[ "$average_over" == best ]]; then printf 'patience %s continued %s\n' "$patience" "$continued"; fi
}

set_task_options() { # sets `task_options`: of fairseq-train, what depends on the task
  task_options=(--task vaswani_translation --source-lang "$source_lang" --target-lang "$target_lang")
}

training_command() { # sets `command`
  local task_options
  set_task_options
  command=(fairseq-train "$work/data-bin" --user-dir "$plugin" "${task_options[@]}"
    --arch "$arch" --max-tokens "$max_tokens" --update-freq "$update_freq"
    --lr-factor "$lr_factor" --warmup-updates "$warmup_updates" --max-update "$max_update"
    --seed "$seed" --save-dir "$work/checkpoints" ${model_options[@]+"${model_options[@]}"}
    --no-progress-bar --log-format simple --log-interval 50)
  if [[ -n "$real_tokens" ]]; then command+=(--real-tokens "$real_tokens"); fi
  if [[ "$batch_order" != fairseq ]]; then command+=(--batch-order "$batch_order"); fi
  if [[ -n "$dropout" ]]; then command+=(--dropout "$dropout"); fi
  if [[ "$average_over" == best ]]; then
    add_early_stopping
  elif [[ "$average_over" == updates ]]; then
    command+=(--no-epoch-checkpoints --save-interval-updates "$save_interval"
      --keep-interval-updates "$average")
  else
    command+=(--keep-last-epochs "$average")
    # Checkpoints within an epoch, only for continuing.
    if ((save_interval)); then
      command+=(--save-interval-updates "$save_interval" --keep-interval-updates 1)
    fi
  fi
  if ((max_epoch)); then command+=(--max-epoch "$max_epoch"); fi
  add_launcher
}

# To `command`: validations and checkpoints every `save_interval` updates and at no other time, so
# that patience means the same in short epochs and in long ones.
add_early_stopping() {
  local never=1000000000
  # The count is kept with the checkpoint, so a continued training gets as much again.
  command+=(--patience "$((patience * (continued + 1)))" --keep-best-checkpoints "$average" --no-epoch-checkpoints
    --save-interval "$never" --validate-interval "$never"
    --save-interval-updates "$save_interval" --validate-interval-updates "$save_interval"
    --keep-interval-updates 1)
}

stage_train() {
  local command
  training_command
  keep_training_of_other_workers
  set_other_trainings_aside
  fresh_folder "$work/checkpoints" "$(training_key)"
  if [[ -n "$dry_run" ]]; then
    run_logged "$work/logs/train.log" "${command[@]}"
    return
  fi
  # fairseq-train would add one update to a training that is complete.
  if training_is_complete; then
    say "the training was complete"
    return
  fi
  [[ -f "$work/checkpoints/checkpoint_last.pt" ]] || rm -f "$work/logs/train.log"
  rm -f "$work/checkpoints/.finished"
  run_logged "$work/logs/train.log" "${command[@]}"
  training_goal >"$work/checkpoints/.finished"
}

training_goal() { # until when it trains
  printf '%s' "$max_update $max_epoch"
  if [[ "$average_over" == best ]]; then printf ' patience %s continued %s' "$patience" "$continued"; fi
  printf '\n'
}

training_is_complete() {
  local folder=$work/checkpoints
  [[ -f "$folder/.finished" && "$(<"$folder/.finished")" == "$(training_goal)" ]] &&
    [[ -f "$folder/.key" && "$(<"$folder/.key")" == "$(training_key)" ]]
}

# The work of every node but the first. It writes only a log; node 0 writes everything else and may
# use the same folder at the same time.
join_training() {
  local command number
  number=$(stage_number --stage train)
  if ((number < first_stage || number > last_stage)); then
    say "node $node_rank: the stages that are asked for are node 0's alone"
    return
  fi
  if [[ -z "$dry_run" ]] && training_is_complete; then
    say "node $node_rank: the training was complete"
    return
  fi
  training_command
  say "node $node_rank of $nodes: waits for node 0, $master, and trains with it"
  current_stage=train
  trap report_break EXIT
  run_logged "$work/logs/train.node$node_rank.log" "${command[@]}"
  current_stage=''
  [[ -n "$dry_run" ]] || say "node $node_rank: its part is done; node 0 goes on with what follows the training"
}

# A training with the same batches goes on even if it was begun with other GPUs, workers or nodes.
keep_training_of_other_workers() {
  local file="$work/checkpoints/.key" now
  [[ -z "$dry_run" && -f "$file" ]] || return 0
  now=$(training_key)
  if [[ "$(<"$file")" != "$now" && "$(whole_batches "$(<"$file")")" == "$(whole_batches "$now")" ]]; then
    say "the training here was begun with another number of workers and the same batches: it goes on"
    printf '%s\n' "$now" >"$file.part"
    mv "$file.part" "$file"
  fi
}

whole_batches() { # KEY of a training: workers x update-freq instead of either
  awk '/^arch / { for (i = 1; i < NF; i++) if ($i == "update-freq") $(i + 1) *= $NF ? $NF : 1; $NF = "" }
       { print }' <<<"$1"
}

# The update of the training's last save; nothing where none is noted.
saved_updates() {
  local notes=$work/checkpoints/.progress.json
  if [[ -f "$notes" ]]; then sed -n 's/.*"updates": \([0-9]*\).*/\1/p' "$notes"; fi
}

# A training can't go on with other options or data, or be shortened to fewer updates: a new one starts,
# and the other one's checkpoints and log are kept beside it.
set_other_trainings_aside() {
  local folder=$work/checkpoints updates
  [[ -z "$dry_run" && -f "$folder/checkpoint_last.pt" ]] || return 0
  updates=$(saved_updates)
  if ((${updates:-0} > max_update)); then
    set_aside "$folder" "$work/logs/train.log" "of $updates updates, more than --max-update $max_update"
  elif [[ ! -f "$folder/.key" || "$(<"$folder/.key")" != "$(training_key)" ]]; then
    set_aside "$folder" "$work/logs/train.log" "of a training with other options or data"
  fi
}

key_average() {
  key_train
  printf 'average %s %s\n' "$average" "$average_over"
}

count_checkpoints() { # PATTERN: in the training's folder, whose own name is none
  local file count=0
  for file in "$work/checkpoints/"$1; do
    if [[ -f "$file" ]]; then count=$((count + 1)); fi
  done
  echo "$count"
}

stage_average() {
  local count=$average flag=--last found
  if [[ "$average_over" == updates ]]; then
    flag=--last-updates
  elif [[ "$average_over" == best ]]; then
    flag=--best
  fi
  if [[ -z "$dry_run" ]]; then
    if [[ "$average_over" == updates ]]; then
      found=$(count_checkpoints 'checkpoint_[0-9]*_[0-9]*.pt')
      # The final state has no number of its own if the training ended between two intervals.
      if (($(count_checkpoints "checkpoint_[0-9]*_$(saved_updates).pt") == 0)); then
        found=$((found + 1))
      fi
    elif [[ "$average_over" == best ]]; then
      found=$(count_checkpoints 'checkpoint.best_loss_*.pt')
    else
      found=$(count_checkpoints 'checkpoint[0-9]*.pt')
    fi
    if ((found == 0)); then
      say "the training ended before the first checkpoint of its kind, nothing to average: taking its last state"
      run_to "$work/averaged.pt" cat "$work/checkpoints/checkpoint_last.pt"
      return
    fi
    if ((found < average)); then
      say "only $found checkpoints to average instead of $average"
      count=$found
    fi
  fi
  remove_leftovers "$work/.averaged.pt"
  run vaswani average --inputs "$work/checkpoints" "$flag" "$count" --output "$work/averaged.pt"
}

key_translate() {
  work_digests averaged.pt 'data-bin/test.*' 'data-bin/dict.*'
  printf 'beam %s subwords %s\n' "$beam" "$subwords"
}

stage_translate() {
  local command=(fairseq-generate "$work/data-bin" --user-dir "$plugin"
    --task vaswani_translation --source-lang "$source_lang" --target-lang "$target_lang"
    --path "$work/averaged.pt" --gen-subset test --max-tokens 8192 --beam "$beam" --no-progress-bar)
  local output=$work/output/test.tok.$target_lang
  if [[ "$subwords" == bpe ]]; then command+=(--remove-bpe); else output=$work/output/test.pieces.$target_lang; fi
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  fresh_folder "$work/output"
  # A log rather than a result: it holds times.
  run_to "$work/logs/generate.txt" "${command[@]}"
  # Into the order of the test set; a sentence that is missing there is an error here.
  run python "$lib/hypotheses.py" --generate-output "$work/logs/generate.txt" \
    --like "$work/$subwords/test.$source_lang" --output "$output"
}
