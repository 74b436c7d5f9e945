#!/usr/bin/env bash
# WMT14 English-French (36M pairs): the paper's base and big models, scored on newstest2014.
#
#   bash recipes/wmt14_en_fr.sh --gpus 8
#   bash recipes/wmt14_en_fr.sh --gpus 8 --arch vaswani_big_en_fr --work work/wmt14_en_fr_big   # dropout 0.1
#   bash recipes/wmt14_en_fr.sh --gpus 1        # the same batch size, by gradient accumulation
#   bash recipes/wmt14_en_fr.sh --scale tiny --data /data/newstest
#
# Batch: 3,125 tokens per side without padding x 8 GPUs x update-freq 1 = the paper's 25,000 per
# update, source and target averaged; one GPU: 3,125 x 1 x update-freq 8. --max-tokens counts the
# longer side with padding. The recipe lowers it from 4,096 until a batch holds 3,125 real tokens
# (--real-tokens), and logs the number. --max-tokens N is used as given.
# Training: 100,000 updates (base), 300,000 (big); the last 5 (20) checkpoints, one every 1,500
# (600) updates, are averaged; beam 4, alpha 0.6. Text: raw, pairs of 1 to 250 words with a ratio of
# at most 1.5, one model of 32,000 word pieces for both languages.
# Expected: tokenized BLEU 38.1 (base); for big the paper prints 41.0 (its text and first versions) and
# 41.8 (its abstract and Table 2 on arXiv). For this score Moses' tokenizer with -a tokenizes output
# and reference; compounds are never split.
#
# Data: Europarl v7, Common Crawl, UN, News Commentary v9, 10^9 French-English; validation
# newstest2013, test newstest2014, from www.statmt.org. No checksums are published, and the downloads
# were not tried here: WORK/download/SHA256SUMS keeps the checksums of the first download, and
# different files are refused later. --data DIR holds the archives, or plain or .gz text: train,
# newstest2013 (or valid) and newstest2014 (or test), each .en and .fr, in DIR or in DIR/en-fr.
# --scale tiny without --data takes data-prep/toy.
set -euo pipefail

recipe=wmt14_en_fr
# shellcheck source=recipes/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/translation.sh"
# shellcheck source=recipes/lib/wmt14.sh
source "$VASWANI_ROOT/recipes/lib/wmt14.sh"

pair=en-fr
archives=(training-parallel-europarl-v7.tgz training-parallel-commoncrawl.tgz training-parallel-un.tgz
  training-parallel-nc-v9.tgz training-giga-fren.tar dev.tgz test-full.tgz)
corpora=(
  "train training-parallel-europarl-v7.tgz training/europarl-v7.fr-en.%"
  "train training-parallel-commoncrawl.tgz commoncrawl.fr-en.%"
  "train training-parallel-un.tgz un/undoc.2000.fr-en.%"
  "train training-parallel-nc-v9.tgz training/news-commentary-v9.fr-en.%"
  "train training-giga-fren.tar giga-fren.release2.fixed.%.gz"
  "valid dev.tgz dev/newstest2013.%"
  "test test-full.tgz test-full/newstest2014-fren-@.%.sgm"
)
tokenizer=none
normalize=false
subwords=wordpiece
operations=32000
cleaning=(--max-length 250 --max-ratio 1.5) # the paper has 36M of about 41M pairs

recipe_defaults() { wmt14_defaults; }

main_recipe "$@"
