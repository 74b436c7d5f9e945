#!/usr/bin/env bash
# shellcheck disable=SC2154  # what translation.sh and the recipes set
#
# How a translation recipe ends: the stages score and bundle, and the last line. Sourced by
# translation.sh.

key_score() {
  key_translate
  key_binarize
}

result_options=() # more of result.py
score_options() { echo --language "$target_lang"; } # of `vaswani bleu`, on running text

stage_score() { score_translations; }

# Lower-cased text is scored as in publications: over the words that the model was trained on, and
# as running text without regard to case. Other text gets all scores of the language at once.
score_translations() {
  local output=$work/output hypothesis reference=$work/raw/test.$target_lang split=() options
  hypothesis=$output/test.$target_lang
  remove_leftovers "$output/.test"
  if [[ "$subwords" == bpe ]]; then
    run python "$prep/normalize_tokenize.py" --detokenize --language "$target_lang" \
      --input "$output/test.tok.$target_lang" --output "$hypothesis"
  else
    run python "$prep/wordpiece.py" undo --model "$(codes)" \
      --input "$output/test.pieces.$target_lang" --output "$hypothesis"
  fi
  if [[ "$lowercase" == true ]]; then
    if [[ "$target_lang" == de ]]; then split=(--compound-split); fi
    run_to "$output/tokenized.json" vaswani bleu --tokenized ${split[@]+"${split[@]}"} --format json \
      --hypothesis "$output/test.tok.$target_lang" --reference "$work/tok/test.$target_lang"
    run_to "$output/bleu.json" vaswani bleu --lowercase --format json \
      --hypothesis "$hypothesis" --reference "$reference"
  else
    read -ra options < <(score_options)
    run_to "$output/bleu.json" vaswani bleu ${options[@]+"${options[@]}"} --format json \
      --hypothesis "$hypothesis" --reference "$reference"
  fi
}

key_bundle() {
  key_score
  key_average
}

stage_bundle() {
  make_bundle
  write_translation_result
}

make_bundle() {
  local kind=subword-nmt punctuation=$normalize limits=()
  if [[ "$subwords" == wordpiece ]]; then kind=sentencepiece; fi
  if [[ "$tokenizer" == none ]]; then punctuation=false; fi
  if ((threshold)); then
    limits=("vocabulary=$work/bpe/vocabulary.$source_lang" "vocabulary_threshold=$threshold")
  fi
  fresh_folder "$work/model"
  run python "$prep/bundle.py" --model "$work/averaged.pt" --data-bin "$work/data-bin" \
    --pair "$pair" --output "$work/model" "lowercase=$lowercase" \
    "normalize_punctuation=$punctuation" "tokenizer=$tokenizer" \
    "aggressive_dash_splits=$aggressive" "subwords=$kind" "codes=$(codes)" \
    ${limits[@]+"${limits[@]}"} "beam=$beam"
}

write_translation_result() {
  local file language data=() tokenized=bleu.json
  if [[ "$lowercase" == true ]]; then tokenized=tokenized.json; fi
  remove_leftovers "$work/.result.json"
  if [[ "$layout" == text ]]; then
    while IFS= read -r file; do data+=("$file"); done < <(source_files)
  else
    for language in "$source_lang" "$target_lang"; do
      for file in $(published_splits); do data+=("$work/raw/$file.$language"); done
    done
  fi
  run python "$lib/result.py" --work "$work" --recipe "$recipe" --arch "$arch" \
    --train-log "$work/logs/train.log" --data "${data[@]}" --path data_bin=data-bin \
    --path checkpoints=checkpoints --path bundle=model --tokenized "$work/output/$tokenized" \
    --sacrebleu "$work/output/bleu.json" --output "$work/result.json" \
    ${result_options[@]+"${result_options[@]}"}
  complete_bundle
}

show_result() { python "$lib/summary.py" "$work/result.json" --title "${title:-$recipe $pair}"; }
