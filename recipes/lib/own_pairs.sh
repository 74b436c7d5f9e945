#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what own_text.sh sets, and what the sourced files read
#
# own_text.sh for translation: what differs from the other translation recipes. Sourced by
# own_text.sh.

# shellcheck source=recipes/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/translation.sh"
# shellcheck source=recipes/lib/own_text.sh
source "$(dirname "${BASH_SOURCE[0]}")/own_text.sh"

stages=(corpus tokenize subwords binarize train average translate score bundle)
if [[ -n "$fine_tunes" ]]; then stages+=(compare); fi
by_content=(train translate)
tokenizer=none
subwords=wordpiece
normalize=false
padding_factor=1
piece_options=(--at-most)
small_arch=vaswani_tiny large_arch=vaswani_base debug_arch=vaswani_debug

recipe_option() {
  own_text_option "$@" || set_option "$@" tokenizer || translation_option "$@"
}

recipe_defaults() {
  if [[ -n "$init_from" ]]; then need_bundle; fi
  use_data_folder
  choose_pair
  check_own_text_options
  if [[ -n "$init_from" ]]; then
    use_bundle
  elif [[ -n "$mixes_old" ]] || ((${#old_test_files[@]})); then
    die "--mix-old, --old-test: go with --init-from BUNDLE"
  fi
  case $tokenizer in
    none) ;;
    moses) if [[ -z "$init_from" ]]; then subwords=bpe normalize=true; fi ;;
    *) die "--tokenizer $tokenizer: must be none or moses" ;;
  esac
  check_translation_options
  title="own text $pair"
  if ((node_rank > 0)); then
    [[ -f "$work/corpus.json" && -d "$work/data-bin" ]] ||
      die "--node-rank $node_rank: the text is not ready; let node 0 prepare it first (--stop-stage binarize)"
    after_corpus
    after_binarize
  fi
}

# --data DIR: train, valid and test under the names that the other recipes take.
use_data_folder() {
  local split language file found
  if [[ -z "${data:-}" ]]; then return; fi
  ((${#train_files[@]} == 0)) || die "--data: goes without --train"
  [[ "$pair" == *-* ]] || die "--data: name the languages with --pair SRC-TGT"
  published=$data source_lang=${pair%-*} target_lang=${pair#*-}
  for split in train valid test; do
    found=()
    for language in "$source_lang" "$target_lang"; do
      file=$(text_file "$split" "$language")
      if [[ -f "$file" ]]; then found+=("$file"); fi
    done
    ((${#found[@]} != 1)) || die "--data $data: ${found[0]##*/} has no other side"
    for file in ${found[@]+"${found[@]}"}; do add_file "--$split" "$file"; done
  done
  ((${#train_files[@]})) || die "--data $data: needs train.$source_lang and train.$target_lang, plain or .gz"
}

# Sets `pair`: from --pair, from the bundle, or from the endings of the files.
choose_pair() {
  local first='' second=''
  if [[ -z "$pair" && -n "$init_from" ]]; then
    pair=$(bundle_setting source_language)-$(bundle_setting target_language)
  elif [[ -z "$pair" ]] && ((${#train_files[@]})); then
    first=$(ending "${train_files[0]}")
    if ((${#train_files[@]} > 1)); then
      second=$(ending "${train_files[1]}")
      pair=$first-$second
    else
      pair=$(ending "$(without_ending "${train_files[0]}")")
    fi
  fi
  if ((${#train_files[@]})) && ! [[ "$pair" =~ ^[A-Za-z][A-Za-z0-9_]*-[A-Za-z][A-Za-z0-9_]*$ && "${pair%-*}" != "${pair#*-}" ]]; then
    die "--train ${train_files[*]}: name the languages with --pair SRC-TGT, such as de-hsb (letters, digits, _)"
  fi
}

without_ending() { # FILE: without .gz and the ending before it
  local name=${1##*/}
  name=${name%.gz}
  echo "${name%.*}"
}

ending() { # FILE: without .gz
  local name=${1##*/}
  name=${name%.gz}
  if [[ "$name" == *.* ]]; then echo "${name##*.}"; fi
}

bundle_setting() { # KEY of preprocessing.json
  sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$init_from/preprocessing.json"
}

# --init-from: the bundle's languages, subwords and rules of text.
use_bundle() {
  local split=$init_from/../raw languages
  [[ " $given " != *" tokenizer "* && " $given " != *" vocabulary "* && " $given " != *" arch "* ]] ||
    die "--init-from: the model has its tokenizer, vocabulary and architecture; leave out --tokenizer, --vocabulary, --arch"
  languages=$(bundle_setting source_language)-$(bundle_setting target_language)
  [[ "$pair" == "$languages" ]] || die "--init-from $init_from: translates $languages, the text is $pair: give files of $languages, in this order"
  cmp -s "$init_from/dict.${pair%-*}.txt" "$init_from/dict.${pair#*-}.txt" ||
    die "--init-from $init_from: its languages have a dictionary each; only a joint one can be fine-tuned here"
  init_from=$(cd -- "$init_from" && pwd -P)
  tokenizer=$(bundle_setting tokenizer) lowercase=$(bundle_setting lowercase)
  normalize=$(bundle_setting normalize_punctuation) aggressive=$(bundle_setting aggressive_dash_splits)
  threshold=$(bundle_setting vocabulary_threshold)
  if [[ -z "$threshold" || "$threshold" == null ]]; then threshold=0; fi
  # Both models translate with the same beam.
  if [[ "$(bundle_setting beam)" =~ ^[0-9]+$ ]]; then beam=$(bundle_setting beam); fi
  case $(bundle_setting subwords) in
    sentencepiece) subwords=wordpiece ;;
    subword-nmt) subwords=bpe ;;
    *) die "--init-from $init_from: has no subwords; it can't be fine-tuned here" ;;
  esac
  if ((${#old_files[@]} == 0)) && [[ -n "$mixes_old" ]]; then
    old_in_work train || die "--mix-old: $init_from has no training text beside it: give its files"
    old_files=("$split/train.${pair%-*}" "$split/train.${pair#*-}")
  fi
  if ((${#old_test_files[@]} == 0)) && old_in_work test; then
    old_test_files=("$split/test.${pair%-*}" "$split/test.${pair#*-}")
  fi
  check_files --mix-old ${old_files[@]+"${old_files[@]}"}
  check_files --old-test ${old_test_files[@]+"${old_test_files[@]}"}
  ((${#old_test_files[@]} != 1)) || die "--old-test: give two files, source and target"
}

old_in_work() { # SPLIT: whether the bundle's work folder has it
  [[ -f "$init_from/../raw/$1.${pair%-*}" && -f "$init_from/../raw/$1.${pair#*-}" ]]
}

table_size() { training_size; }

use_choices() {
  if [[ -n "$init_from" ]]; then
    use_architecture
    vocabulary="of the bundle"
  elif [[ "$subwords" == wordpiece ]]; then
    # Beside the letters, 256 bytes and 4 special pieces.
    operations=$((vocabulary + $(report_number letters) + 260))
  else
    operations=$vocabulary
  fi
}

key_unpack() { key_corpus; }
key_clean() { key_tokenize; }

key_subwords() {
  key_clean
  printf 'subwords %s operations %s threshold %s\n' "$subwords" "$operations" "$threshold"
  if [[ -n "$init_from" ]]; then digests "$init_from"/*; fi
}

learn_subwords() {
  if [[ -z "$init_from" ]]; then
    learn_new_subwords
    return
  fi
  run cp "$init_from/$(bundle_setting codes)" "$(codes)"
  run cp "$init_from/dict.$source_lang.txt" "$work/$subwords/dictionary"
  if ((threshold)); then run cp "$init_from/$(bundle_setting vocabulary)" "$work/bpe/vocabulary.$source_lang"; fi
}

choose_subword_rules() { # LANGUAGE: sets `rules`
  if [[ -z "$init_from" ]]; then return; fi
  if ((threshold)) && [[ "$1" == "$source_lang" ]]; then
    rules=(--vocabulary "$work/bpe/vocabulary.$1" --vocabulary-threshold "$threshold")
  elif [[ "$subwords" == bpe ]]; then
    # Subwords that the dictionary lacks would be unknown to the model.
    rules=(--vocabulary "$work/bpe/dictionary" --vocabulary-threshold 1)
  fi
}

has_dictionary() { [[ "$subwords" == wordpiece || -n "$init_from" ]]; }

after_binarize() { count_rounds; }

training_key() {
  translation_training_key
  if [[ -n "$init_from" ]]; then digests "$init_from/model.pt"; fi
}

score_options() { # Moses' words only for languages that are written with blanks
  local tokenizer
  tokenizer=$(report_word sacrebleu_tokenizer)
  if [[ "${tokenizer:-13a}" != 13a ]]; then
    echo --sacrebleu-tokenizer "$tokenizer"
  elif [[ "$target_lang" =~ ^[a-z][a-z]$ ]]; then
    echo --language "$target_lang"
  else
    echo --sacrebleu-tokenizer 13a
  fi
}

stage_bundle() {
  make_bundle
  result_options=(--also "corpus=$work/corpus.json")
  if [[ -z "$init_from" ]]; then write_translation_result; fi
}

key_compare() {
  key_bundle
  digests "$init_from/model.pt" ${old_test_files[@]+"${old_test_files[@]}"}
}

# The gain of fine-tuning on the new text and its cost on the old: both models on both test sets.
stage_compare() {
  local parts=("new_after=$work/output/bleu.json")
  remove_leftovers "$work/output/.compared"
  score_bundle "$init_from" new_before "$work/raw/test.$source_lang" "$work/raw/test.$target_lang"
  if ((${#old_test_files[@]})); then
    score_bundle "$init_from" old_before "${old_test_files[@]}"
    score_bundle "$work/model" old_after "${old_test_files[@]}"
  fi
  run python "$lib/compare_scores.py" --output "$work/output/compared.json" "${parts[@]}"
  result_options=(--also "corpus=$work/corpus.json" --also "fine_tuning=$work/output/compared.json")
  write_translation_result
}

# BUNDLE NAME SOURCE REFERENCE: output/NAME.json, sacreBLEU as of the other scores; adds to `parts`.
score_bundle() {
  local hypothesis=$work/output/$2.$target_lang options
  local command=(vaswani translate --model "$1" --one-sentence-a-line)
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  read -ra options < <(score_options)
  if [[ "$lowercase" == true ]]; then options=(--lowercase); fi
  run_to "$hypothesis" "${command[@]}" "$3"
  run_to "$work/output/$2.json" vaswani bleu ${options[@]+"${options[@]}"} --format json \
    --hypothesis "$hypothesis" --reference "$4"
  parts+=("$2=$work/output/$2.json")
}

show_result() {
  if [[ -n "$init_from" ]]; then python "$lib/compare_scores.py" --show "$work/output/compared.json"; fi
  python "$lib/summary.py" "$work/result.json" --title "$title"
}
