#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what the recipes read, and what they set
#
# The stages that translation recipes share: binarize, train, average, translate. Sourced after
# common.sh. A recipe's earlier stages leave
#   WORK/raw/{train,valid,test}.LANG   the sentences as people write them
#   WORK/tok/...                       the same as the model's words
#   WORK/bpe/... and WORK/bpe/codes    the same in subwords
# and the recipe sets these before `main_recipe`; options of the same names change them:
pair=en-de
arch=vaswani_tiny
seed=1
max_tokens=8192
max_update=8000
max_epoch=0
warmup_updates=2000
lr_factor=1.0
save_interval=0 # --save-interval-updates: states kept within an epoch, only to go on from
# not options:
dropout=0.3
average=10 # epochs, the last ones
beam=4

plugin=$VASWANI_ROOT/vaswani_plugin
prep=$VASWANI_ROOT/data-prep
lib=$VASWANI_ROOT/recipes/lib

translation_option() { # NAME VALUE: the options of every translation recipe
  case $1 in
    --arch) arch=$2 ;;
    --seed) seed=$2 ;;
    --max-tokens) max_tokens=$2 ;;
    --max-update) max_update=$2 ;;
    --max-epoch) max_epoch=$2 ;;
    --warmup-updates) warmup_updates=$2 ;;
    --lr-factor) lr_factor=$2 ;;
    --save-interval-updates) save_interval=$2 ;;
    *) return 1 ;;
  esac
}

check_translation_options() {
  need_count --seed "$seed"
  need_count --max-tokens "$max_tokens"
  need_count --max-update "$max_update"
  need_count --warmup-updates "$warmup_updates"
  [[ "$max_epoch" == 0 ]] || need_count --max-epoch "$max_epoch"
  [[ "$save_interval" == 0 ]] || need_count --save-interval-updates "$save_interval"
  need_number --lr-factor "$lr_factor"
  [[ "$arch" =~ ^[A-Za-z0-9_]+$ ]] || die "--arch $arch: no name of an architecture (see \`vaswani archs\`)"
  source_lang=${pair%-*}
  target_lang=${pair#*-}
}

learn_and_apply_bpe() { # OPERATIONS: from WORK/tok to WORK/bpe
  local split language
  fresh_folder "$work/bpe"
  run python "$prep/bpe.py" learn --operations "$1" --output "$work/bpe/codes" \
    --input "$work/tok/train.$source_lang" "$work/tok/train.$target_lang"
  for split in train valid test; do
    for language in "$source_lang" "$target_lang"; do
      run python "$prep/bpe.py" apply --codes "$work/bpe/codes" \
        --input "$work/tok/$split.$language" --output "$work/bpe/$split.$language"
    done
  done
}

stage_binarize() {
  run python "$prep/binarize.py" --pair "$pair" --output "$work/data-bin" \
    --train "$work/bpe/train" --valid "$work/bpe/valid" --test "$work/bpe/test"
}

# What decides on the trajectory of a training; with these unchanged it can be continued.
training_key() {
  key_binarize
  printf 'arch %s seed %s max-tokens %s warmup %s factor %s dropout %s device %s %s\n' \
    "$arch" "$seed" "$max_tokens" "$warmup_updates" "$lr_factor" "$dropout" "$device" "$gpus"
}

key_train() {
  training_key
  printf 'updates %s epochs %s save-interval %s\n' "$max_update" "$max_epoch" "$save_interval"
}

stage_train() {
  local finished="$work/checkpoints/.finished"
  local command=(fairseq-train "$work/data-bin" --user-dir "$plugin"
    --task vaswani_translation --source-lang "$source_lang" --target-lang "$target_lang"
    --arch "$arch" --dropout "$dropout" --max-tokens "$max_tokens"
    --lr-factor "$lr_factor" --warmup-updates "$warmup_updates" --max-update "$max_update"
    --seed "$seed" --save-dir "$work/checkpoints"
    --keep-last-epochs "$average" --no-progress-bar --log-format simple --log-interval 50)
  if ((save_interval)); then
    command+=(--save-interval-updates "$save_interval" --keep-interval-updates 1)
  fi
  if ((max_epoch)); then command+=(--max-epoch "$max_epoch"); fi
  if [[ "$device" == cpu ]]; then
    command+=(--cpu)
  else
    command+=(--distributed-world-size "$gpus")
  fi
  forget_overtrained_checkpoints
  fresh_folder "$work/checkpoints" "$(training_key)"
  if [[ -n "$dry_run" ]]; then
    run_logged "$work/logs/train.log" "${command[@]}"
    return
  fi
  # fairseq-train would add one update to a training that is complete.
  if [[ -f "$finished" && "$(<"$finished")" == "$max_update $max_epoch" ]]; then
    say "the training was complete"
    return
  fi
  printf '%s\n' "$max_update" >"$work/checkpoints/.max_update"
  [[ -f "$work/checkpoints/checkpoint_last.pt" ]] || rm -f "$work/logs/train.log"
  rm -f "$finished"
  run_logged "$work/logs/train.log" "${command[@]}"
  printf '%s\n' "$max_update $max_epoch" >"$finished"
}

# A training that went on for longer than is wanted now can't be cut back: begin it again.
forget_overtrained_checkpoints() {
  local before="$work/checkpoints/.max_update"
  [[ -z "$dry_run" && -f "$before" ]] || return 0
  if (($(<"$before") > max_update)); then
    say "the checkpoints here may be older than --max-update $max_update: training from the start"
    rm -rf "$work/checkpoints"
  fi
}

key_average() {
  key_train
  printf 'average %s\n' "$average"
}

stage_average() {
  local count=$average file epochs=0
  if [[ -z "$dry_run" ]]; then
    mkdir -p "$work/model"
    for file in "$work"/checkpoints/checkpoint[0-9]*.pt; do
      if [[ -f "$file" ]]; then epochs=$((epochs + 1)); fi
    done
    if ((epochs == 0)); then
      say "the training ended within its first epoch, nothing to average: taking its last state"
      run_to "$work/model/model.pt" cat "$work/checkpoints/checkpoint_last.pt"
      return
    fi
    if ((epochs < average)); then count=$epochs; fi
  fi
  run vaswani average --inputs "$work/checkpoints" --last "$count" --output "$work/model/model.pt"
}

key_translate() {
  key_average
  printf 'beam %s\n' "$beam"
}

stage_translate() {
  local command=(fairseq-generate "$work/data-bin" --user-dir "$plugin"
    --task vaswani_translation --source-lang "$source_lang" --target-lang "$target_lang"
    --path "$work/model/model.pt" --gen-subset test --max-tokens 8192
    --beam "$beam" --remove-bpe --no-progress-bar)
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  fresh_folder "$work/output"
  run_to "$work/output/generate.txt" "${command[@]}"
  # Into the order of the test set; a sentence that is missing there is an error here.
  run python "$lib/hypotheses.py" --generate-output "$work/output/generate.txt" \
    --like "$work/bpe/test.$source_lang" --output "$work/output/test.tok.$target_lang"
}

# The folder from which text can be translated without anything else: model, dictionaries,
# subword codes and how raw text becomes the model's words.
write_bundle() { # KEY=VALUE of preprocessing.json...
  local language
  for language in "$source_lang" "$target_lang"; do
    run cp "$work/data-bin/dict.$language.txt" "$work/model/"
  done
  run cp "$work/bpe/codes" "$work/model/codes"
  run python "$lib/result.py" preprocessing --output "$work/model/preprocessing.json" \
    "source_language=$source_lang" "target_language=$target_lang" "subwords=subword-nmt" \
    "codes=codes" "$@"
}
