#!/usr/bin/env bash
# Tatoeba (some 150,000 short everyday sentence pairs): a middle-sized training on one machine.
#
#   bash recipes/tatoeba.sh --pair en-de
#   bash recipes/tatoeba.sh --pair en-fr --data /data/tatoeba-en-fr
#
# Data: the pairs of manythings.org/anki (from tatoeba.org, CC BY 2.0 FR). The site refuses some
# scripts: download deu-eng.zip or fra-eng.zip with a browser then, and give its folder as --data.
# There is no standard split: pairs that share a sentence are in the same split, so that no test
# sentence occurs in training. --data DIR may also have {train,valid,test}.{en,de}, plain or .gz.
# Text: tokenized, 1 to 100 tokens, ratio 9, joint BPE of 8,000 operations.
# Batch: 8,192 tokens with padding, about 200 updates an epoch; peak learning rate 5e-3 =
# lr-factor 2.5298 x 128^-0.5 x 2000^-0.5; the last 10 epochs are averaged.
# Expected: no score is published for this split; docs/results/ancestors.md has scores of small models.
#
# Option of this recipe:
#   --pair en-de     languages, also de-en, en-fr, fr-en
recipe=tatoeba pair=en-de options='pair'
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"
if [[ $pair == *de* ]]; then archive=deu-eng.zip foreign=de; else archive=fra-eng.zip foreign=fr; fi

if [[ -n $data && ! -f $data/$archive ]]; then
  step raw raw "$data" train valid test
elif [[ -z $data ]] && is_tiny; then
  step raw raw "$toy/$(toy_pair)" train valid test
else
  if [[ -z $data ]]; then step download download "https://www.manythings.org/anki/$archive"; fi
  step unzip python -m zipfile -e "${data:-$work/download}/$archive" "$work/archive"
  step english to "$work/all.en" cut -f1 "$work/archive/${archive%-eng.zip}.txt"
  step foreign to "$work/all.$foreign" cut -f2 "$work/archive/${archive%-eng.zip}.txt"
  step raw python "$prep/split_groups.py" "$work/all.en" "$work/all.$foreign" --output "$work/raw" \
    --train 0 --valid 2000 --test 2000
fi
step tokenize every raw tok python "$prep/normalize_tokenize.py" --language {}
step clean clean tok --max-length 100 --max-ratio 9
step learn-bpe python "$prep/bpe.py" learn --operations 8000 --output "$work/codes" \
  --input "$work/clean/train.$source" "$work/clean/train.$target"
step bpe every clean bpe python "$prep/bpe.py" apply --codes "$work/codes"
step binarize binarize "$work/bpe"
step train train --arch "$(or_tiny vaswani_tiny vaswani_debug)" --max-tokens 8192 --max-update 20000 \
  --warmup-updates 2000 --lr-factor 2.5298 --dropout 0.1 --keep-last-epochs 10
step average average --last 10
step translate translate --remove-bpe
step score score moses --language "$target"
step bundle bundle lowercase=false tokenizer=moses normalize_punctuation=true subwords=subword-nmt "codes=$work/codes" beam=4
finish "tatoeba $pair" "bleu=$work/bleu.json"
