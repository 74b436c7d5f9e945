#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what the recipes and translation.sh read and set
#
# What becomes of a translation recipe's text: the stages tokenize, clean, subwords and binarize.
# Sourced by translation.sh. A recipe sets what differs from this:
valid_every=0     # without a published validation set: every Nth pair of the cleaned training set
tokenizer=moses   # or none
lowercase=false
normalize=true   # punctuation
aggressive=false # Moses' -a: split at hyphens
cleaning=()      # check_corpus.py's limits for the training set, in tokens; none: only checked
subwords=bpe     # or wordpiece
operations=10000 # BPE's merges, or the number of word pieces
piece_options=() # of `wordpiece.py learn`
threshold=0      # subword-nmt's --vocabulary-threshold; 0: none
bpe_dropout=''   # probability of leaving out a merge in the training text; none: 0
samples=10       # with BPE-dropout: how often the training text holds each pair, each time split anew
padding_factor=8 # rows of the dictionary become a multiple of it

takes_validation_from_training() { ((valid_every)) && [[ "$layout" == archives ]]; }

published_splits() {
  if takes_validation_from_training; then echo train test; else echo "${splits[@]}"; fi
}

key_tokenize() {
  key_unpack
  printf 'tokenizer %s lowercase %s normalize %s aggressive %s\n' \
    "$tokenizer" "$lowercase" "$normalize" "$aggressive"
}

stage_tokenize() {
  local split language rules=()
  if [[ "$tokenizer" == none ]]; then
    say "nothing to do: word pieces are learned from raw text"
    return
  fi
  if [[ "$lowercase" == true ]]; then rules+=(--lowercase); fi
  if [[ "$normalize" == false ]]; then rules+=(--no-normalize); fi
  if [[ "$aggressive" == true ]]; then rules+=(--aggressive); fi
  fresh_folder "$work/tok"
  for split in $(published_splits); do
    for language in "$source_lang" "$target_lang"; do
      run python "$prep/normalize_tokenize.py" --language "$language" ${rules[@]+"${rules[@]}"} \
        --input "$work/raw/$split.$language" --output "$work/tok/$split.$language"
    done
  done
}

tokenized() { # SPLIT: the prefix of its files after the stage tokenize
  if [[ "$tokenizer" == none ]]; then echo "$work/raw/$1"; else echo "$work/tok/$1"; fi
}

cleaned() { # SPLIT: the prefix of its files after the stage clean
  if [[ "$1" == train ]] && { ((${#cleaning[@]})) || takes_validation_from_training; }; then
    echo "$work/clean/$1"
  elif [[ "$1" == valid ]] && takes_validation_from_training; then
    echo "$work/clean/$1"
  else
    tokenized "$1"
  fi
}

key_clean() {
  key_tokenize
  printf 'cleaning %s valid_every %s\n' "${cleaning[*]-}" "$valid_every"
}

# As in Moses and in fairseq's recipes, after the tokenization: the limits count tokens.
stage_clean() {
  local split all=$work/clean/train language
  fresh_folder "$work/clean"
  if takes_validation_from_training; then all=$work/clean/all; fi
  if ((${#cleaning[@]})); then
    run python "$prep/check_corpus.py" "$(tokenized train).$source_lang" "$(tokenized train).$target_lang" \
      --clean "$all.$source_lang" "$all.$target_lang" "${cleaning[@]}"
  fi
  if takes_validation_from_training; then
    for language in "$source_lang" "$target_lang"; do
      run_to "$work/clean/valid.$language" awk "NR % $valid_every == 0" "$all.$language"
      run_to "$work/clean/train.$language" awk "NR % $valid_every != 0" "$all.$language"
      run rm "$all.$language"
    done
  fi
  for split in "${splits[@]}"; do
    run python "$prep/check_corpus.py" "$(cleaned "$split").$source_lang" "$(cleaned "$split").$target_lang"
  done
}

check_bpe_dropout() {
  need_number --bpe-dropout "$bpe_dropout"
  awk -v p="$bpe_dropout" 'BEGIN { exit !(0 < p && p < 1) }' ||
    die "--bpe-dropout $bpe_dropout: must be above 0 and below 1"
  [[ "$subwords" == bpe ]] ||
    die "--bpe-dropout $bpe_dropout: this recipe splits text into word pieces, not by BPE"
}

key_subwords() {
  key_clean
  printf 'subwords %s operations %s threshold %s\n' "$subwords" "$operations" "$threshold"
  if [[ -n "$bpe_dropout" ]]; then printf 'dropout %s samples %s\n' "$bpe_dropout" "$samples"; fi
}

stage_subwords() {
  local split language rules
  fresh_folder "$work/$subwords"
  learn_subwords
  for language in "$source_lang" "$target_lang"; do
    rules=()
    choose_subword_rules "$language"
    for split in "${splits[@]}"; do
      if [[ "$split" == train && -n "$bpe_dropout" ]]; then
        sample_subwords "$language" ${rules[@]+"${rules[@]}"}
      else
        apply_subwords "$(cleaned "$split").$language" "$work/$subwords/$split.$language" \
          ${rules[@]+"${rules[@]}"}
      fi
    done
  done
}

# LANGUAGE RULE...: BPE-dropout (Provilkov et al. 2020). The paper splits each sentence anew in every
# epoch; here `samples` ways of splitting it follow one another in one longer epoch.
sample_subwords() {
  local language=$1 number part sampled=()
  shift
  for ((number = 1; number <= samples; number++)); do
    part=$work/bpe/train.sample-$number.$language
    apply_subwords "$(cleaned train).$language" "$part" "$@" --dropout "$bpe_dropout" --seed "$number"
    sampled+=("$part")
  done
  run_to "$work/bpe/train.$language" cat "${sampled[@]}"
  run rm "${sampled[@]}"
}

learn_subwords() { learn_new_subwords; }
choose_subword_rules() { choose_learned_rules "$@"; }
has_dictionary() { [[ "$subwords" == wordpiece ]]; } # and does not count one from the training text

learn_new_subwords() { # writes $(codes), and word pieces' dictionary
  if [[ "$subwords" == wordpiece ]]; then
    run python "$prep/wordpiece.py" learn --size "$operations" ${piece_options[@]+"${piece_options[@]}"} \
      --output "$(codes)" --input "$(cleaned train).$source_lang" "$(cleaned train).$target_lang"
    # All pieces: a dictionary counted from the text would lack the bytes of unseen letters.
    run python "$prep/wordpiece.py" dictionary --model "$(codes)" --output "$work/wordpiece/dictionary"
  else
    run python "$prep/bpe.py" learn --operations "$operations" --output "$(codes)" \
      --input "$(cleaned train).$source_lang" "$(cleaned train).$target_lang"
  fi
}

# LANGUAGE: sets `rules`. With a threshold each language uses only subwords of its training text:
# codes are applied, subwords are counted, and the codes are applied again with the counts.
choose_learned_rules() {
  if ((threshold == 0)); then return; fi
  run python "$prep/bpe.py" apply --codes "$(codes)" \
    --input "$(cleaned train).$1" --output "$work/bpe/train.$1"
  run python "$prep/bpe.py" vocabulary \
    --input "$work/bpe/train.$1" --output "$work/bpe/vocabulary.$1"
  rules=(--vocabulary "$work/bpe/vocabulary.$1" --vocabulary-threshold "$threshold")
}

codes() { if [[ "$subwords" == bpe ]]; then echo "$work/bpe/codes"; else echo "$work/wordpiece/pieces.model"; fi; }

apply_subwords() { # INPUT OUTPUT RULE...
  local input=$1 output=$2
  shift 2
  if [[ "$subwords" == wordpiece ]]; then
    run python "$prep/wordpiece.py" apply --model "$(codes)" --input "$input" --output "$output"
  else
    run python "$prep/bpe.py" apply --codes "$(codes)" --input "$input" --output "$output" "$@"
  fi
}

key_binarize() {
  key_subwords
  printf 'padding factor %s\n' "$padding_factor"
}

stage_binarize() {
  local dictionary=()
  if has_dictionary; then dictionary=(--dictionary "$work/$subwords/dictionary"); fi
  remove_leftovers "$work/.data-bin"
  run python "$prep/binarize.py" --pair "$pair" --output "$work/data-bin" \
    --padding-factor "$padding_factor" ${dictionary[@]+"${dictionary[@]}"} \
    --train "$work/$subwords/train" --valid "$work/$subwords/valid" --test "$work/$subwords/test"
}

# PATTERN...: names and sums of files in the work folder that match.
work_digests() {
  local pattern file files=()
  for pattern in "$@"; do
    for file in "$work"/$pattern; do files+=("$file"); done
  done
  digests "${files[@]}"
}
