#!/usr/bin/env bash
# From nothing to translated text: makes the environment, takes a small made-up
# English-German corpus, trains the Transformer on it, averages, translates, scores.
#
#   bash recipes/quickstart.sh
#   bash recipes/quickstart.sh --work /tmp/quickstart --seed 2
#
# Batch: 2,048 tokens x 1 (CPU, or one GPU) x update-freq 1. Peak learning rate
# lr-factor x 128^-0.5 x warmup^-0.5 = 2.5e-3 (twice that can get stuck).
# Expected: about 95 sacreBLEU on the held-out test set (its sentences never occur in training). The
# last line prints the training time: 2 to 5 minutes on 2 free cores with AVX-512. The corpus is made up:
# the score shows that everything works, not how well the model would translate real text.
#
# --data DIR takes {train,valid,test}.{en,de} from DIR instead of data-prep/toy.
set -euo pipefail

recipe=quickstart
# shellcheck source=recipes/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/translation.sh"

pairs=(6000 300 500)
normalize=false
operations=1500
max_tokens=2048
max_update=1000
warmup_updates=400
lr_factor=0.5657
dropout=0.1
average=5
title="quickstart, held-out test"

recipe_defaults() { check_translation_options; }

# The first test sentence of 8 to 12 words: long enough to see something, short enough to read.
example_sentence() {
  awk 'NF >= 8 && NF <= 12 { print; found = 1; exit } { if (NR == 1) first = $0 }
       END { if (!found) print first }' "$work/tok/test.$source_lang"
}

stage_score() {
  local sentence=SENTENCE
  score_translations
  if [[ -z "$dry_run" ]]; then sentence=$(example_sentence); fi
  run vaswani attention --path "$work/averaged.pt" --data "$work/data-bin" \
    --bpe-codes "$(codes)" "--source=$sentence" --output "$work/output/attention.png"
}

show_translations() { # ten sentences with their translations and references
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
  python "$lib/summary.py" "$work/result.json" --title "$title"
}

main_recipe "$@"
