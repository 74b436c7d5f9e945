#!/usr/bin/env bash
# IWSLT14 German-English (160,000 pairs from TED talks): trains from scratch, and scores on the usual
# test set.
#
#   bash recipes/iwslt14_de_en.sh
#   bash recipes/iwslt14_de_en.sh --data /data/iwslt14
#
# Batch: 4,096 tokens x 1 GPU x update-freq 1 = 4,096 tokens an update, with padding; about 1,000
# updates an epoch. Peak learning rate 5e-4 = lr-factor 0.715 x 512^-0.5 x 4000^-0.5.
# The setting is that of fairseq's recipe: lower-cased, tokenized, 1 to 175 tokens, ratio 1.5, every
# 23rd remaining pair for validation, joint BPE of 10,000 operations; the test set is dev2010,
# dev2012, tst2010, tst2011 and tst2012 together (6,750 pairs). The model has fairseq's sizes, but 8
# heads instead of 4. This recipe lower-cases the text before it tokenizes; fairseq's tokenizes first,
# which differs at abbreviations.
# Expected: about 34.4 tokenized BLEU (the self-attention baseline of Wu et al. 2019, "Pay Less
# Attention", quoted from memory). Not run at full scale here.
#
# Data: WIT3 (Cettolo et al. 2012), from fairseq's copy or the original address. No checksum is
# published, and the download was not tried here: WORK/download/SHA256SUMS keeps the checksum of the
# first download, and a different file is refused later. --data DIR holds de-en.tgz, or plain or .gz
# text: train, valid and test, each .de and .en. --scale tiny without --data takes data-prep/toy.
set -euo pipefail

recipe=iwslt14_de_en
# shellcheck source=recipes/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/translation.sh"

pair=de-en
default_arch=vaswani_c_ff1024
archives=(de-en.tgz)
corpora=("train de-en.tgz de-en/train.tags.de-en.%")
for set in TED.dev2010 TEDX.dev2012 TED.tst2010 TED.tst2011 TED.tst2012; do
  corpora+=("test de-en.tgz de-en/IWSLT14.$set.de-en.%.xml")
done
lowercase=true
normalize=false
cleaning=(--max-length 175 --max-ratio 1.5)
valid_every=23
max_tokens=4096
max_update=50000
warmup_updates=4000
lr_factor=0.715
dropout=0.3
beam=5
title="IWSLT14 German-English"

archive_urls() {
  echo http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz
  echo https://wit3.fbk.eu/archive/2014-01/texts/de/en/de-en.tgz
}

recipe_defaults() { check_translation_options; }

main_recipe "$@"
