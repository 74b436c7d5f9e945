#!/usr/bin/env bash
# WMT14 English-German (4.5M pairs): the paper's base and big models, scored on newstest2014.
#
#   bash recipes/wmt14_en_de.sh --gpus 8
#   bash recipes/wmt14_en_de.sh --gpus 8 --arch vaswani_big --work work/wmt14_en_de_big
#   bash recipes/wmt14_en_de.sh --gpus 1        # the same batch, by gradient accumulation
#
# Data: Europarl v7, Common Crawl, News Commentary v9 (www.statmt.org, no published checksums;
# downloads not tried here); newstest2013 validates, newstest2014 (3,003 sentences) tests, both by
# sacreBLEU. --data DIR has {train,newstest2013,newstest2014}.{en,de}, plain or .gz.
# Text: punctuation normalized, tokenized by Moses' rules, pairs of 1 to 250 tokens, one joint BPE of
# 37,000 operations; a language uses only subwords that occur 50 times in it.
# Batch: 3,125 tokens a side without padding x 8 GPUs = the paper's 25,000 an update; --real-tokens
# lowers --max-tokens, which counts padding, until a batch holds so many.
# Training: 100,000 updates (big: 300,000); the last 5 (20) states, one every 1,500 (600) updates,
# are averaged; beam 4, alpha 0.6.
# Expected: 27.3 (base) and 28.4 (big) tokenized BLEU with compounds split (Vaswani et al. 2017,
# Table 2). Not run here.
#
# Option of this recipe:
#   --arch NAME     vaswani_base (default), vaswani_big, or any other of `vaswani archs`
recipe=wmt14_en_de arch=vaswani_base options='arch' pair=en-de
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"
share 8

if [[ -n $data ]]; then
  step raw raw "$data" train newstest2013 newstest2014
elif is_tiny; then
  step raw raw "$toy/en-de" train valid test
else
  step europarl download http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz
  step commoncrawl download http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz
  step commentary download http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz
  training_text() { # LANGUAGE; no carriage returns inside lines, and every file ends its last line
    tar -xOf "$work/download/training-parallel-europarl-v7.tgz" "training/europarl-v7.de-en.$1" | tr '\r' ' ' | awk 1
    tar -xOf "$work/download/training-parallel-commoncrawl.tgz" "commoncrawl.de-en.$1" | tr '\r' ' ' | awk 1
    tar -xOf "$work/download/training-parallel-nc-v9.tgz" "training/news-commentary-v9.de-en.$1" | tr '\r' ' ' | awk 1
  }
  for language in en de; do step "train.$language" to "$work/raw/train.$language" training_text "$language"; done
  step valid.en to "$work/raw/valid.en" sacrebleu -t wmt13 -l en-de --echo src
  step valid.de to "$work/raw/valid.de" sacrebleu -t wmt13 -l en-de --echo ref
  step test.en to "$work/raw/test.en" sacrebleu -t wmt14/full -l en-de --echo src
  step test.de to "$work/raw/test.de" sacrebleu -t wmt14/full -l en-de --echo ref
fi
step tokenize every raw tok python "$prep/normalize_tokenize.py" --language {}
step clean clean tok --max-length 250 --max-ratio inf
step learn-bpe python "$prep/bpe.py" learn --operations 37000 --output "$work/codes" \
  --input "$work/clean/train.en" "$work/clean/train.de"
step bpe-all every clean bpe-all python "$prep/bpe.py" apply --codes "$work/codes"
for side in en de; do step "count.$side" subword-nmt get-vocab --input "$work/bpe-all/train.$side" --output "$work/vocabulary.$side"; done
step bpe every clean bpe python "$prep/bpe.py" apply --codes "$work/codes" \
  --vocabulary "$work/vocabulary.{}" --vocabulary-threshold "$(or_tiny 50 5)"
step binarize binarize "$work/bpe"
updates=100000 interval=1500 last=5
if [[ $arch == *_big* ]]; then updates=300000 interval=600 last=20; fi
step train train --arch "$(or_tiny "$arch" vaswani_debug)" --max-tokens 4096 --real-tokens "$(or_tiny 3125 500)" \
  --update-freq "$batches" --max-update "$updates" --no-epoch-checkpoints \
  --save-interval-updates "$(or_tiny $interval 4)" --keep-interval-updates "$last"
step average average --last-updates $last
step translate translate --remove-bpe
step score score moses --language de
step bundle bundle lowercase=false tokenizer=moses normalize_punctuation=true subwords=subword-nmt "codes=$work/codes" beam=4 \
  "vocabulary=$work/vocabulary.en" vocabulary_threshold=50
finish "WMT14 en-de, newstest2014" "bleu=$work/bleu.json"
