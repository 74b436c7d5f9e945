#!/usr/bin/env bash
# WMT14 English-French (36M pairs): the paper's base and big models, scored on newstest2014.
#
#   bash recipes/wmt14_en_fr.sh --gpus 8
#   bash recipes/wmt14_en_fr.sh --gpus 8 --arch vaswani_big_en_fr --work work/wmt14_en_fr_big   # dropout 0.1
#
# Data: Europarl v7, Common Crawl, UN, News Commentary v9, 10^9 French-English (www.statmt.org, no
# published checksums; downloads not tried here); newstest2013 validates, newstest2014 tests, both by
# sacreBLEU. --data DIR has {train,newstest2013,newstest2014}.{en,fr}, plain or .gz.
# Text: raw, pairs of 1 to 250 words and a ratio of at most 1.5, one model of 32,000 word pieces.
# Batch: 3,125 tokens a side without padding x 8 GPUs = the paper's 25,000 an update.
# Training: 100,000 updates (big: 300,000); the last 5 (20) states, one every 1,500 (600) updates,
# are averaged; beam 4, alpha 0.6.
# Expected: tokenized BLEU 38.1 (base); for big the paper prints 41.0 (its text and first versions)
# and 41.8 (its abstract and Table 2 on arXiv). Not run here. Moses' -a tokenizes both sides of this score.
#
# Option of this recipe:
#   --arch NAME     vaswani_base (default), vaswani_big_en_fr, or any other of `vaswani archs`
recipe=wmt14_en_fr arch=vaswani_base options='arch' pair=en-fr
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"
share 8

if [[ -n $data ]]; then
  step raw raw "$data" train newstest2013 newstest2014
elif is_tiny; then
  step raw raw "$toy/en-fr" train valid test
else
  for file in wmt13/training-parallel-{europarl-v7,commoncrawl,un}.tgz wmt14/training-parallel-nc-v9.tgz wmt10/training-giga-fren.tar; do
    step "download-${file##*/}" download "http://www.statmt.org/$file"
  done
  training_text() { # LANGUAGE
    tar -xOf "$work/download/training-parallel-europarl-v7.tgz" "training/europarl-v7.fr-en.$1" | tr '\r' ' ' | awk 1
    tar -xOf "$work/download/training-parallel-commoncrawl.tgz" "commoncrawl.fr-en.$1" | tr '\r' ' ' | awk 1
    tar -xOf "$work/download/training-parallel-un.tgz" "un/undoc.2000.fr-en.$1" | tr '\r' ' ' | awk 1
    tar -xOf "$work/download/training-parallel-nc-v9.tgz" "training/news-commentary-v9.fr-en.$1" | tr '\r' ' ' | awk 1
    tar -xOf "$work/download/training-giga-fren.tar" "giga-fren.release2.fixed.$1.gz" | gzip -dc | tr '\r' ' ' | awk 1
  }
  for language in en fr; do step "train.$language" to "$work/raw/train.$language" training_text "$language"; done
  step valid.en to "$work/raw/valid.en" sacrebleu -t wmt13 -l en-fr --echo src
  step valid.fr to "$work/raw/valid.fr" sacrebleu -t wmt13 -l en-fr --echo ref
  step test.en to "$work/raw/test.en" sacrebleu -t wmt14/full -l en-fr --echo src
  step test.fr to "$work/raw/test.fr" sacrebleu -t wmt14/full -l en-fr --echo ref
fi
step clean clean raw --max-length 250 --max-ratio 1.5
step learn-pieces python "$prep/wordpiece.py" learn --size "$(or_tiny 32000 400)" --output "$work/pieces.model" \
  --input "$work/clean/train.en" "$work/clean/train.fr"
step dictionary python "$prep/wordpiece.py" dictionary --model "$work/pieces.model" --output "$work/dictionary"
step pieces every clean pieces python "$prep/wordpiece.py" apply --model "$work/pieces.model"
step binarize binarize "$work/pieces" --dictionary "$work/dictionary"
updates=100000 interval=1500 last=5
if [[ $arch == *_big* ]]; then updates=300000 interval=600 last=20; fi
step train train --arch "$(or_tiny "$arch" vaswani_debug)" --max-tokens 4096 --real-tokens "$(or_tiny 3125 500)" \
  --eval-bleu-remove-bpe sentencepiece --update-freq "$batches" --max-update "$updates" --no-epoch-checkpoints \
  --save-interval-updates "$(or_tiny $interval 4)" --keep-interval-updates "$last"
step average average --last-updates $last
step translate translate
step score score "$work/pieces.model" --language fr
step bundle bundle lowercase=false tokenizer=none normalize_punctuation=false subwords=sentencepiece "codes=$work/pieces.model" beam=4
finish "WMT14 en-fr, newstest2014" "bleu=$work/bleu.json"
