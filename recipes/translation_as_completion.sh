#!/usr/bin/env bash
# Translation by a language model: one sequence `source <sep> target`, a decoder alone.
#
#   bash recipes/translation_as_completion.sh --data work/multi30k/raw --pair en-de
#   bash recipes/translation_as_completion.sh --data work/multi30k/raw --arch vaswani_lm_lstm_tiny
#
# Data: --data DIR has {train,valid,test}.SRC and .TGT, such as the folder raw/ of another recipe.
# Batch: 4,096 tokens with padding; peak rate 2.5e-3 = lr-factor 0.9 x 128^-0.5 x 1000^-0.5; the loss
# counts the target alone; the last 5 states are averaged; source and target share 256 tokens.
# Expected: nothing is published for such small models; docs/results/language-models.md has ours.
#
# Options of this recipe:
#   --pair en-de     languages
#   --arch NAME      vaswani_lm_tiny (default), or a recurrent one, vaswani_lm_lstm_tiny
recipe=translation_as_completion family=vaswani_lm pair=en-de arch='' options='pair arch'
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"
[[ " ${extra[*]-} " != *" --tokens-per-sample"* ]] || die "--tokens-per-sample: source and target have their lengths in this recipe; edit its lines"
if [[ -z $data ]]; then
  is_tiny || die "--data DIR: give {train,valid,test}.$source and .$target, such as work/multi30k/raw"
  data=$toy/$(toy_pair)
fi

for split in train valid test; do
  step "source-$split" to "$work/raw/$split.article" text "$data/$split.$source"
  step "target-$split" to "$work/raw/$split.summary" text "$data/$split.$target"
done
step code python "$prep/code_text.py" --coding bpe --operations "$(or_tiny 8000 400)" --summaries \
  --article-tokens 150 --summary-tokens 104 --output "$work/data-bin" \
  --train "$work/raw/train" --valid "$work/raw/valid" --test "$work/raw/test"
step train train --task vaswani_language_modeling --arch "${arch:-$(or_tiny vaswani_lm_tiny vaswani_lm_debug)}" \
  --tokens-per-sample 256 --sample-break-mode eos --loss-after '<sep>' --max-tokens 4096 --max-update 4000 \
  --warmup-updates 1000 --lr-factor 0.9 --no-epoch-checkpoints \
  --save-interval-updates "$(or_tiny 200 4)" --keep-interval-updates 5
step average average --last-updates 5
step bundle python "$prep/bundle.py" --model "$work/averaged.pt" --data-bin "$work/data-bin" --output "$work/model" beam=4
step translate vaswani summarize --model "$work/model" ${cpu:+--cpu} --output "$work/test.out" "$work/raw/test.article"
step score to "$work/bleu.json" vaswani bleu --language "$target" --format json \
  --hypothesis "$work/test.out" --reference "$work/raw/test.summary"
finish "translation as completion, $pair, test" "bleu=$work/bleu.json"
