#!/usr/bin/env bash
# WMT14 English-German (4.5M pairs): the paper's base and big models, scored on newstest2014.
#
#   bash recipes/wmt14_en_de.sh --gpus 8
#   bash recipes/wmt14_en_de.sh --gpus 8 --arch vaswani_big
#   bash recipes/wmt14_en_de.sh --gpus 1        # the same batches: 8 are collected to an update
#   bash recipes/wmt14_en_de.sh --scale tiny --data /data/newstest
#
# Batch: 3,125 real tokens a side x 8 GPUs x update-freq 1 = the paper's 25,000 an update, source and
# target averaged; one GPU: 3,125 x 1 x update-freq 8. --real-tokens lowers --max-tokens, the padded
# tokens of the longer side, from 4,096 until a batch holds as many; the log says which number that
# is. --max-tokens N takes N as it is (4,096 x 8, the authors' padded batch, holds more here: batches
# are fuller than theirs).
# Training: 100,000 updates (base), 300,000 (big); the last 5 (20) checkpoints, one every 1,500
# (600) updates, are averaged; beam 4, alpha 0.6. Text: punctuation normalized, tokenized by Moses'
# rules, pairs of 1 to 250 tokens (of any ratio: the paper kept all 4.5M), one BPE of 37,000
# operations for both languages, each language held to subwords that it was seen with 50 times.
# --padding-factor 8192 gives the 40,960 rows with which the paper's numbers of parameters agree.
# Expected: 27.3 (base) and 28.4 (big) tokenized BLEU with compounds split (Vaswani et al. 2017,
# Table 2); users of the same settings report 26.6 to 27.1 for base. sacreBLEU is about 1 lower.
#
# Data: Europarl v7, Common Crawl, News Commentary v9; newstest2013 to validate, newstest2014 (all
# 3,003 sentences) to test, from www.statmt.org, which could not be reached from the machine that
# this was written on: no sums are known there. The sums of the first download are kept in
# WORK/download/SHA256SUMS, and other files refused from then on. --data DIR takes the archives
# from DIR, or plain or .gz text: train, newstest2013 (or valid) and newstest2014 (or test), each
# .en and .de, in DIR or in DIR/en-de. --scale tiny without --data makes its own sentences.
set -euo pipefail

recipe=wmt14_en_de
# shellcheck source=recipes/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/translation.sh"
# shellcheck source=recipes/lib/wmt14.sh
source "$VASWANI_ROOT/recipes/lib/wmt14.sh"

archives=(training-parallel-europarl-v7.tgz training-parallel-commoncrawl.tgz
  training-parallel-nc-v9.tgz dev.tgz test-full.tgz)
corpora=(
  "train training-parallel-europarl-v7.tgz training/europarl-v7.de-en.%"
  "train training-parallel-commoncrawl.tgz commoncrawl.de-en.%"
  "train training-parallel-nc-v9.tgz training/news-commentary-v9.de-en.%"
  "valid dev.tgz dev/newstest2013.%"
  "test test-full.tgz test-full/newstest2014-deen-@.%.sgm"
)
operations=37000
threshold=50

recipe_defaults() { wmt14_defaults; }

main_recipe "$@"
