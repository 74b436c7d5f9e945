#!/usr/bin/env bash
# From nothing to translated text: makes the environment, writes a small English-German corpus
# from a grammar, trains the Transformer on it, averages, translates, scores.
#
#   bash recipes/quickstart.sh
#   bash recipes/quickstart.sh --work /tmp/quickstart --seed 2
#
# Batch: 2,048 tokens x 1 (CPU, or one GPU) x update-freq 1. Peak learning rate
# lr-factor x 128^-0.5 x warmup^-0.5 = 2.5e-3 (twice that can get stuck).
# Expected: over 90 sacreBLEU on the held-out test set (its sentences never occur in training)
# after at most 5 minutes on 2 cores, the installation not counted (measured: 94.9 in 3 min 15 s).
# The corpus is made up, so the score says that everything works, not how well the model would
# translate real text.
#
# Options:
#   --arch NAME          default vaswani_tiny; `vaswani archs` lists them
#   --max-update N       default 1000       --max-tokens N       default 2048
#   --max-epoch N        default no limit   --warmup-updates N   default 400
#   --lr-factor F        default 0.5657     --seed S             default 1 (model and corpus)
#   --save-interval-updates N   keep the state every N updates too (default: every epoch)
# --data DIR takes {train,valid,test}.{en,de} from DIR instead of the grammar.
set -euo pipefail

recipe=quickstart
stages=(data prepare binarize train average translate score)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# Neither help nor a dry run needs the environment.
case " $* " in *" --help "* | *" -h "* | *" --dry-run "*) VASWANI_ENV_FUNCTIONS_ONLY=1 ;; esac
# shellcheck source=recipes/lib/env.sh
source "$root/recipes/lib/env.sh"
VASWANI_ROOT=$root
# shellcheck source=recipes/lib/common.sh
source "$root/recipes/lib/common.sh"
# shellcheck source=recipes/lib/translation.sh
source "$root/recipes/lib/translation.sh"

max_tokens=2048
max_update=1000
warmup_updates=400
lr_factor=0.5657
dropout=0.1
average=5
operations=1500
pairs=(6000 300 500)

recipe_option() { translation_option "$@"; }

recipe_defaults() {
  if [[ "$scale" == tiny ]]; then
    pairs=(300 30 30)
    operations=300
    if ((max_update > 20)); then max_update=20; fi
    if ((warmup_updates > 10)); then warmup_updates=10; fi
  fi
  check_translation_options
}

key_data() { printf 'data %s pairs %s seed %s\n' "$data" "${pairs[*]}" "$seed"; }

stage_data() {
  local split language
  fresh_folder "$work/raw"
  if [[ -z "$data" ]]; then
    run python "$prep/toy_translation.py" --output "$work/raw" --seed "$seed" \
      --train "${pairs[0]}" --valid "${pairs[1]}" --test "${pairs[2]}"
  else
    for split in train valid test; do
      for language in "$source_lang" "$target_lang"; do
        [[ -f "$data/$split.$language" ]] || die "--data $data: $split.$language is missing"
        run cp "$data/$split.$language" "$work/raw/"
      done
    done
  fi
  for split in train valid test; do
    run python "$prep/check_corpus.py" "$work/raw/$split.$source_lang" "$work/raw/$split.$target_lang"
  done
}

key_prepare() {
  key_data
  printf 'operations %s\n' "$operations"
}

stage_prepare() {
  local split language
  fresh_folder "$work/tok"
  for split in train valid test; do
    for language in "$source_lang" "$target_lang"; do
      run python "$prep/normalize_tokenize.py" --language "$language" --no-normalize \
        --input "$work/raw/$split.$language" --output "$work/tok/$split.$language"
    done
  done
  learn_and_apply_bpe "$operations"
}

key_binarize() { key_prepare; }

key_score() { key_translate; }

# The first test sentence of 8 to 12 words: long enough to see something, short enough to read.
example_sentence() {
  awk 'NF >= 8 && NF <= 12 { print; found = 1; exit } { if (NR == 1) first = $0 }
       END { if (!found) print first }' "$work/tok/test.$source_lang"
}

stage_score() {
  local output=$work/output sentence='SENTENCE'
  run python "$prep/normalize_tokenize.py" --detokenize --language "$target_lang" \
    --input "$output/test.tok.$target_lang" --output "$output/test.$target_lang"
  run_to "$output/tokenized.json" vaswani bleu --tokenized --format json \
    --hypothesis "$output/test.tok.$target_lang" --reference "$work/tok/test.$target_lang"
  run_to "$output/sacrebleu.json" vaswani bleu --format json \
    --hypothesis "$output/test.$target_lang" --reference "$work/raw/test.$target_lang"
  write_bundle lowercase=false normalize_punctuation=false tokenizer=moses
  run python "$lib/result.py" result --work "$work" --recipe "$recipe" --arch "$arch" \
    --train-log "$work/logs/train.log" \
    --data "$work"/raw/{train,valid,test}".$source_lang" "$work"/raw/{train,valid,test}".$target_lang" \
    --path data_bin=data-bin --path checkpoints=checkpoints --path bundle=model \
    --tokenized "$output/tokenized.json" --sacrebleu "$output/sacrebleu.json" \
    --output "$work/result.json"
  if [[ -z "$dry_run" ]]; then sentence=$(example_sentence); fi
  run vaswani attention --path "$work/model/model.pt" --data "$work/data-bin" \
    --bpe-codes "$work/bpe/codes" --source "$sentence" --output "$output/attention.png"
}

show_translations() { # ten sentences with what the model made of them and what was wanted
  local source translation reference count=0
  while ((count < 10)) && IFS= read -r source <&3 && IFS= read -r translation <&4 && IFS= read -r reference <&5; do
    printf '\n  source       %s\n  translation  %s\n  reference    %s\n' "$source" "$translation" "$reference"
    count=$((count + 1))
  done 3<"$work/raw/test.$source_lang" 4<"$work/output/test.$target_lang" 5<"$work/raw/test.$target_lang"
}

show_result() {
  show_translations
  printf '\n'
  vaswani bleu --hypothesis "$work/output/test.$target_lang" --reference "$work/raw/test.$target_lang"
  printf 'attention heat map: %s\n' "$work/output/attention.png"
  python "$lib/summary.py" "$work/result.json" --title "quickstart, held-out test"
}

main_recipe "$@"
if [[ -z "$dry_run" ]] && ((last_stage == ${#stages[@]})); then show_result; fi
