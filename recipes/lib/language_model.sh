#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what the recipes read, and what they and translation.sh set
# shellcheck disable=SC2128  # `data` is a local array elsewhere
#
# What the recipes of language models (lm.sh, summarization.sh) share: settings, and the stages
# code, train and bundle. Training, averaging and downloads are those of translation.sh; what is
# defined here takes the place of what is there. A recipe also defines
#   source_files, choose_layout, stage_unpack, data_layout (see corpus.sh)
# WORK then holds raw/ (text), data-bin/ (coded), checkpoints/, averaged.pt, model/ (the bundle),
# output/, result.json.

# shellcheck source=recipes/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/translation.sh"

default_arch=vaswani_lm_tiny
coding=bpe
operations=8000
padding_factor=1
tokens_per_sample=256
lr_factor=0.9
warmup_updates=1000
max_update=4000
max_tokens=4096
average=5
average_over=updates
units_of=''         # a bundle whose units are used instead of new ones
coding_options=()   # of code_text.py
training_options=() # of fairseq-train

recipe_usage() {
  cat <<HELP

Options of every language model recipe (in brackets: the default of this one):
  --arch NAME              architecture (${default_arch}; --scale tiny: vaswani_lm_debug)
  --coding KIND            units of the text: words, bpe or characters (${coding})
  --operations N           BPE merge operations (${operations})
  --tokens-per-sample N    longest context in tokens (${tokens_per_sample})
  --max-tokens N           tokens in a batch per GPU (${max_tokens})
$(schedule_usage)
  --save-interval-updates N   updates between checkpoints (a twentieth of --max-update); the last
                           ${average} checkpoints are averaged
HELP
}

recipe_option() { language_model_option "$@"; }

language_model_option() { # NAME VALUE
  set_option "$@" coding operations tokens_per_sample || training_option "$@"
}

check_language_model_options() {
  if [[ "$scale" == tiny ]]; then
    arch=${arch:-vaswani_lm_debug}
    if ((tokens_per_sample > tiny_tokens_per_sample)); then tokens_per_sample=$tiny_tokens_per_sample; fi
  fi
  case $coding in
    words | bpe | characters) ;;
    *) die "--coding $coding: must be words, bpe or characters" ;;
  esac
  need_counts operations tokens_per_sample
  pair=text-text # translation.sh needs it; a language model has no languages
  check_translation_options
  if ((save_interval == 0)); then save_interval=$(((max_update + 19) / 20)); fi
}

key_fetch() { printf 'layout %s data %s\n' "$layout" "$data"; }

# SPLIT: as code_text.py takes it. For plain text perplexity.sh has others.
raw_prefix() { echo "$work/raw/$1"; }

raw_files() { # SPLIT...: all files of it
  local split
  for split in "$@"; do printf '%s\n' "$work/raw/$split.article" "$work/raw/$split.summary"; done
}

key_unpack() { language_model_key_unpack; }

language_model_key_unpack() {
  printf 'corpus %s layout %s lines %s seed %s\n' "${corpus-}" "$layout" "${lines[*]}" "$seed"
  source_files | listed_digests
}

key_code() { language_model_key_code; }

language_model_key_code() {
  raw_files train valid test | listed_digests
  printf 'coding %s operations %s options %s\n' "$coding" "$operations" "${coding_options[*]-}"
}

stage_code() {
  remove_leftovers "$work/.data-bin"
  local units=(--coding "$coding")
  if [[ "$coding" == bpe ]]; then units+=(--operations "$operations"); fi
  if [[ -n "$units_of" ]]; then units=(--like "$units_of"); fi
  run python "$prep/code_text.py" "${units[@]}" ${coding_options[@]+"${coding_options[@]}"} --output "$work/data-bin" \
    --train "$(raw_prefix train)" --valid "$(raw_prefix valid)" --test "$(raw_prefix test)"
}

training_key() { language_model_training_key; }

language_model_training_key() {
  work_digests 'data-bin/train.*' 'data-bin/valid.*' 'data-bin/dict.*'
  printf 'arch %s seed %s max-tokens %s sample %s update-freq %s warmup %s factor %s dropout %s options %s device %s\n' \
    "$arch" "$seed" "$max_tokens" "$tokens_per_sample" "$update_freq" "$warmup_updates" \
    "$lr_factor" "$dropout" "${training_options[*]-}" "$(device_key)"
}

set_task_options() {
  task_options=(--task vaswani_language_modeling --tokens-per-sample "$tokens_per_sample"
    ${training_options[@]+"${training_options[@]}"})
}

key_bundle() {
  key_average
  digests "$work/averaged.pt" "$work/data-bin/preprocessing.json" "$work/data-bin/dict.txt"
  printf 'beam %s\n' "$beam"
}

stage_bundle() {
  fresh_folder "$work/model"
  run python "$prep/bundle.py" --model "$work/averaged.pt" --data-bin "$work/data-bin" \
    --output "$work/model" "beam=$beam"
}

# KEY FILE OPTION...: writes result.json, with the scores of a JSON file under the name KEY, and the
# model card. The options are further ones of result.py.
write_result() {
  local file files=() scores=$1=$2
  shift 2
  while IFS= read -r file; do files+=("$file"); done < <(raw_files train valid test)
  remove_leftovers "$work/.result.json"
  run python "$lib/result.py" --work "$work" --recipe "$recipe" --arch "$arch" \
    --train-log "$work/logs/train.log" --data "${files[@]}" --path data_bin=data-bin \
    --path checkpoints=checkpoints --path bundle=model --scores "$scores" --output "$work/result.json" "$@"
  complete_bundle
}
