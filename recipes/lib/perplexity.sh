#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what the recipes and language_model.sh read and set
#
# How a recipe of a language model of plain text (lm.sh, own_text.sh) ends: the stages evaluate and
# sample. Sourced after language_model.sh. The splits are raw/SPLIT.txt; a recipe sets `prompts`.
tiny_tokens_per_sample=64
context='' # tokens before each scored one, at least; none: half a sample

has_baselines() { true; } # whether the n-grams of the training text fit into memory

raw_prefix() { echo "$work/raw/$1.txt"; } # SPLIT: as code_text.py takes it

raw_files() { # SPLIT...: all files of it
  local split
  for split in "$@"; do raw_prefix "$split"; done
}

key_evaluate() {
  key_bundle
  digests "$(raw_prefix train)" "$(raw_prefix valid)" "$(raw_prefix test)"
  echo "context $(context_flags)"
}

context_flags() { # an LSTM remembers all of the text; others see the tokens before
  local tokens=$((tokens_per_sample / 2))
  if [[ -n "$context" ]] && ((context < tokens_per_sample)); then tokens=$context; fi
  if [[ "$arch" == vaswani_lm_lstm* ]]; then echo --carry-state; else echo "--context-window $tokens"; fi
}

stage_evaluate() {
  local flags command=(vaswani lm --model "$work/model" --text "$(raw_prefix test)"
    --tokens-per-sample "$tokens_per_sample")
  read -ra flags <<<"$(context_flags)"
  command+=("${flags[@]}")
  if has_baselines; then
    command+=(--baselines --train-data "$(raw_prefix train)" --valid-data "$(raw_prefix valid)")
  fi
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  fresh_folder "$work/output"
  run_to "$work/output/perplexity.json" "${command[@]}" --format json
}

key_sample() { key_evaluate; }

# Line after line, until the sample is half as long as a training sample.
write_sample() {
  local command=(vaswani complete --model "$work/model" --sampling --top-p 0.9 --seed "$seed"
    --max-new-tokens $((tokens_per_sample / 2)) --stop never)
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  run_to "$work/output/sample.txt" "${command[@]}" -- "${prompts[@]}"
}

stage_sample() {
  write_sample
  write_result ppl "$work/output/perplexity.json"
}

show_perplexity() {
  cat "$work/output/sample.txt"
  python "$lib/report_table.py" lm "$work/output/perplexity.json"
}

show_result() {
  show_perplexity
  python "$lib/summary.py" "$work/result.json" --title "$title"
}
