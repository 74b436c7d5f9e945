#!/usr/bin/env bash
# Translation as completion: a Transformer language model reads `source <sep> target` as one sequence
# and translates by completing `source <sep>`; no encoder, no attention to a source.
#
#   bash recipes/multi30k.sh --data DIR --preprocessing cased              # the encoder-decoder
#   bash recipes/translation_as_completion.sh --data work/multi30k         # the same text, completed
#   bash recipes/translation_as_completion.sh --scale tiny                 # does everything run?
#
# Batch: 4,096 tokens with padding x 1 GPU (or the CPU) x update-freq 1. Peak learning rate 2.5e-3 =
# lr-factor 0.9 x 128^-0.5 x 1000^-0.5. The last 5 states are averaged. The loss is on the target
# alone (--loss-on both: also on the source).
# Expected: no score is published for such small models. If --data is the work folder of a finished
# encoder-decoder, the last lines compare both sacreBLEU scores.
#
# Data: --data DIR is the work folder of a translation recipe, or another folder with raw text:
# DIR/raw/{train,valid,test}.SOURCE and .TARGET. --scale tiny without --data takes data-prep/toy.
#
# Options:
#   --pair en-de          source and target language
#   --target-tokens N     longest target in tokens, in training and in decoding (default: 96)
#   --loss-on PART        tokens that the loss counts: target (default), or both, source and target

# shellcheck disable=SC2128  # `data` is a local array elsewhere
set -euo pipefail

recipe=translation_as_completion
# shellcheck source=recipes/lib/language_model.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/language_model.sh"
stages=(unpack code train average bundle translate score)
by_content=(unpack code train)

languages=en-de
target_tokens=96
loss_on=target
tokens_per_sample=256
tiny_tokens_per_sample=128
beam=4

recipe_option() {
  case $1 in
    --pair) languages=$2 ;;
    *) set_option "$@" target_tokens loss_on || language_model_option "$@" ;;
  esac
}

recipe_defaults() {
  local source_tokens
  [[ "$languages" =~ ^[a-z]+-[a-z]+$ ]] || die "--pair $languages: must be two languages, such as en-de"
  need_counts target_tokens
  check_language_model_options
  title="translation as completion, $languages, test"
  if [[ "$scale" == tiny ]] && ((target_tokens > tiny_tokens_per_sample / 2)); then
    target_tokens=$((tiny_tokens_per_sample / 2))
  fi
  source_tokens=$((tokens_per_sample - target_tokens - 2)) # <sep> and the end
  ((source_tokens > 0)) || die "--target-tokens $target_tokens: leaves no room for a source in --tokens-per-sample $tokens_per_sample"
  coding_options=(--summaries --article-tokens "$source_tokens" --summary-tokens "$target_tokens")
  training_options=(--sample-break-mode eos)
  case $loss_on in
    target) training_options+=(--loss-after '<sep>') ;;
    both) ;;
    *) die "--loss-on $loss_on: must be target or both" ;;
  esac
}

choose_layout() {
  layout=work
  if [[ -z "$data" ]]; then
    [[ "$scale" == tiny ]] || die "--data DIR: give the work folder of a translation recipe"
    layout=made
  fi
  published=$data/raw
  data_layout="raw/train, raw/valid and raw/test, .${languages%-*} and .${languages#*-}"
}

toy_language() { if [[ "$languages" == *-en ]]; then echo "${languages%-*}"; else echo "${languages#*-}"; fi; }

source_files() {
  local split
  if [[ "$layout" == made ]]; then printf '%s\n' "$toy/en-$(toy_language)"/* && return; fi
  for split in train valid test; do
    printf '%s\n' "$published/$split.${languages%-*}" "$published/$split.${languages#*-}"
  done
}

key_unpack() {
  printf 'pair %s\n' "$languages"
  language_model_key_unpack
}

stage_unpack() {
  local split from=$published
  fresh_folder "$work/raw"
  if [[ "$layout" == made ]]; then
    from=$work/parts
    toy_folder=$from unpack_toy "en-$(toy_language)" en "$(toy_language)"
  else
    check_local_files
  fi
  for split in train valid test; do
    run_to "$work/raw/$split.article" cat "$from/$split.${languages%-*}"
    run_to "$work/raw/$split.summary" cat "$from/$split.${languages#*-}"
  done
  if [[ -z "$dry_run" ]]; then rm -rf "$work/parts"; fi
}

key_translate() {
  digests "$work/averaged.pt" "$work/raw/test.article"
  printf 'beam %s\n' "$beam"
}

stage_translate() {
  local command=(vaswani summarize --model "$work/model" --output "$work/output/test.target")
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  fresh_folder "$work/output"
  run "${command[@]}" "$work/raw/test.article"
}

key_score() {
  key_translate
  digests "$work/raw/test.summary"
}

stage_score() {
  run_to "$work/output/bleu.json" vaswani bleu --hypothesis "$work/output/test.target" \
    --reference "$work/raw/test.summary" --language "${languages#*-}" --format json
  write_result bleu "$work/output/bleu.json"
}

show_result() {
  python "$lib/summary.py" "$work/result.json" --title "$title"
  if [[ -n "$data" && -f "$data/result.json" ]]; then
    python "$lib/summary.py" "$data/result.json" --title "the encoder-decoder on the same text"
  fi
}

main_recipe "$@"
