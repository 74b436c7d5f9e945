#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what own_text.sh sets, and what the sourced files read
#
# own_text.sh --task lm: what differs from lm.sh. Sourced by own_text.sh.

# shellcheck source=recipes/lib/language_model.sh
source "$(dirname "${BASH_SOURCE[0]}")/language_model.sh"
# shellcheck source=recipes/lib/perplexity.sh
source "$VASWANI_ROOT/recipes/lib/perplexity.sh"
# shellcheck source=recipes/lib/own_text.sh
source "$VASWANI_ROOT/recipes/lib/own_text.sh"

stages=(corpus code train average bundle evaluate sample)
if [[ -n "$fine_tunes" ]]; then stages=(corpus code train average bundle evaluate compare sample); fi
by_content=(code train)
beam=1
small_arch=vaswani_lm_tiny large_arch=vaswani_lm_base debug_arch=vaswani_lm_debug

recipe_option() { own_text_option "$@" || language_model_option "$@"; }

recipe_defaults() {
  local split file
  if [[ -n "${data:-}" ]]; then
    ((${#train_files[@]} == 0)) || die "--data: goes without --train"
    for split in train valid test; do
      for file in "$data/$split.txt.gz" "$data/$split.txt"; do
        if [[ -f "$file" ]]; then add_file "--$split" "$file" && break; fi
      done
    done
    ((${#train_files[@]})) || die "--data $data: needs train.txt, plain or .gz"
  fi
  check_own_text_options
  [[ -z "$pair" ]] || die "--pair $pair: a language model has no pair; leave it out, or --task lm"
  [[ -z "$mixes_old" ]] || die "--mix-old: goes with --task translation; for a language model join the texts"
  ((${#train_files[@]} == 1 && ${#valid_files[@]} <= 1 && ${#test_files[@]} <= 1 && ${#old_test_files[@]} <= 1)) ||
    die "--task lm: takes one file each of --train, --valid, --test and --old-test"
  if [[ -n "$init_from" ]]; then
    need_bundle
    use_bundle
  elif ((${#old_test_files[@]})); then
    die "--old-test: goes with --init-from BUNDLE"
  fi
  check_language_model_options
  title="own text"
  if ((node_rank > 0)); then
    [[ -f "$work/corpus.json" && -d "$work/data-bin" ]] ||
      die "--node-rank $node_rank: the text is not ready; let node 0 prepare it first (--stop-stage code)"
    after_corpus
    after_code
  fi
}

# --init-from: the bundle's units.
use_bundle() {
  [[ " $given " != *" coding "* && " $given " != *" vocabulary "* && " $given " != *" arch "* ]] ||
    die "--init-from: the model has its coding, vocabulary and architecture; leave out --coding, --vocabulary, --arch"
  init_from=$(cd -- "$init_from" && pwd -P)
  if ((${#old_test_files[@]} == 0)) && [[ -f "$init_from/../raw/test.txt" ]]; then
    old_test_files=("$init_from/../raw/test.txt")
  fi
  check_files --old-test ${old_test_files[@]+"${old_test_files[@]}"}
  units_of=$init_from
}

table_size() { # a pair of the table for each 100 characters
  local characters
  characters=$(report_number characters)
  if ((characters == 0)); then
    case ${train_files[0]} in
      *.gz) characters=$(gzip -dc -- "${train_files[0]}" | wc -c) ;;
      *) characters=$(wc -c <"${train_files[0]}") ;;
    esac
  fi
  echo $((characters / 100))
}

use_choices() {
  if [[ -n "$init_from" ]]; then
    use_architecture
    vocabulary="of the bundle"
  else
    operations=$vocabulary
  fi
}

key_code() {
  language_model_key_code
  if [[ -n "$init_from" ]]; then digests "$init_from/preprocessing.json" "$init_from"/{codes,dict.txt}; fi
}

after_code() { count_rounds; }

training_key() {
  language_model_training_key
  if [[ -n "$init_from" ]]; then digests "$init_from/model.pt"; fi
}

key_compare() {
  key_evaluate
  digests "$init_from/model.pt" ${old_test_files[@]+"${old_test_files[@]}"}
}

# The gain of fine-tuning on the new text and its cost on the old: both models on both test texts.
stage_compare() {
  local parts=("new_after=$work/output/perplexity.json")
  measure_bundle "$init_from" new_before "$(raw_prefix test)"
  if ((${#old_test_files[@]})); then
    measure_bundle "$init_from" old_before "${old_test_files[0]}"
    measure_bundle "$work/model" old_after "${old_test_files[0]}"
  fi
  run python "$lib/compare_scores.py" --output "$work/output/compared.json" "${parts[@]}"
}

measure_bundle() { # BUNDLE NAME TEXT: output/NAME.json; adds to `parts`
  local flags command=(vaswani lm --model "$1" --text "$3" --tokens-per-sample "$tokens_per_sample")
  read -ra flags <<<"$(context_flags)"
  command+=("${flags[@]}")
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  run_to "$work/output/$2.json" "${command[@]}" --format json
  parts+=("$2=$work/output/$2.json")
}

# The model continues the beginnings of two lines of the test text.
stage_sample() {
  local line also=(--also "corpus=$work/corpus.json")
  if [[ -n "$init_from" ]]; then also+=(--also "fine_tuning=$work/output/compared.json"); fi
  prompts=(PROMPT)
  if [[ -z "$dry_run" ]]; then
    prompts=()
    while IFS= read -r line; do prompts+=("$line"); done < <(
      python "$lib/text_part.py" --most 2 --characters 20 "$(raw_prefix test)"
    )
  fi
  write_sample
  write_result ppl "$work/output/perplexity.json" "${also[@]}"
}

show_result() {
  show_perplexity
  if [[ -n "$init_from" ]]; then python "$lib/compare_scores.py" --show "$work/output/compared.json"; fi
  python "$lib/summary.py" "$work/result.json" --title "$title"
}
