#!/usr/bin/env bash
# WMT14 English-German (4.5M pairs): the paper's base and big models, scored on newstest2014.
#
#   bash recipes/wmt14_en_de.sh --gpus 8
#   bash recipes/wmt14_en_de.sh --gpus 8 --arch vaswani_big --work work/wmt14_en_de_big
#   bash recipes/wmt14_en_de.sh --gpus 1        # the same batch size, by gradient accumulation
#   bash recipes/wmt14_en_de.sh --scale tiny --data /data/newstest
#
# Batch: 3,125 tokens per side without padding x 8 GPUs x update-freq 1 = the paper's 25,000 per
# update, source and target averaged; one GPU: 3,125 x 1 x update-freq 8. --max-tokens counts the
# longer side with padding. The recipe lowers it from 4,096 until a batch holds 3,125 real tokens
# (--real-tokens), and logs the number. --max-tokens N is used as given.
# Training: 100,000 updates (base), 300,000 (big); the last 5 (20) checkpoints, one every 1,500
# (600) updates, are averaged; beam 4, alpha 0.6. Text: punctuation normalized, tokenized by Moses'
# rules, pairs of 1 to 250 tokens (of any ratio: the paper kept all 4.5M), one joint BPE of 37,000
# operations; each language uses only subwords that occur 50 times in it. --padding-factor 8192 gives
# the embedding matrix the 40,960 rows that agree with the paper's parameter counts.
# Expected: 27.3 (base) and 28.4 (big) tokenized BLEU with compounds split (Vaswani et al. 2017,
# Table 2); users of the same settings report 26.6 to 27.1 for base. sacreBLEU is about 1 lower.
#
# Data: Europarl v7, Common Crawl, News Commentary v9; validation newstest2013, test newstest2014 (all
# 3,003 sentences), from www.statmt.org. No checksums are published, and the downloads were not tried
# here: WORK/download/SHA256SUMS keeps the checksums of the first download, and different files are
# refused later. --data DIR holds the archives, or plain or .gz text: train, newstest2013 (or valid)
# and newstest2014 (or test), each .en and .de, in DIR or in DIR/en-de. --scale tiny without --data
# takes data-prep/toy.
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
