#!/usr/bin/env bash
# IWSLT14 German-English (160,000 pairs from TED talks): from scratch, scored on the usual test set.
#
#   bash recipes/iwslt14_de_en.sh
#   bash recipes/iwslt14_de_en.sh --data /data/iwslt14
#
# Data: WIT3 (Cettolo et al. 2012), fairseq's copy (no published checksum; download not tried here).
# The test set is dev2010, dev2012, tst2010, tst2011 and tst2012 together (6,750 pairs). --data DIR
# has de-en.tgz, or {train,valid,test}.{de,en}, plain or .gz (valid must be there; it validates nothing).
# Text: as fairseq's recipe, lower-cased, tokenized, 1 to 175 tokens, ratio 1.5, every 23rd remaining
# pair validates, joint BPE of 10,000 operations. (fairseq tokenizes first: abbreviations differ.)
# Batch: 4,096 tokens with padding, about 1,000 updates an epoch; peak learning rate 5e-4 = lr-factor
# 0.715 x 512^-0.5 x 4000^-0.5. The model has fairseq's sizes, but 8 heads instead of 4.
# Expected: about 34.4 tokenized BLEU (the self-attention baseline of Wu et al. 2019, "Pay Less
# Attention", from memory). Not run at full scale here.
recipe=iwslt14_de_en pair=de-en
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"

if [[ -n $data && ! -f $data/de-en.tgz ]]; then
  step raw raw "$data" train valid test
elif [[ -z $data ]] && is_tiny; then
  step raw raw "$toy/en-de" train valid test
else
  if [[ -z $data ]]; then step download download http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz; fi
  archive=${data:-$work/download}/de-en.tgz
  step unpack tar -xzf "$archive" -C "$work"
  tests=({TED.dev2010,TEDX.dev2012,TED.tst2010,TED.tst2011,TED.tst2012}.de-en)
  for language in de en; do
    step "train.$language" python "$prep/sentences.py" "$work/de-en/train.tags.de-en.$language" --output "$work/raw/train.$language"
    files=("${tests[@]/#/$work/de-en/IWSLT14.}")
    step "test.$language" python "$prep/sentences.py" "${files[@]/%/.$language.xml}" --output "$work/raw/test.$language"
  done
fi
step tokenize every raw tok python "$prep/normalize_tokenize.py" --language {} --lowercase --no-normalize
step clean clean tok --max-length 175 --max-ratio 1.5
hold_out() { # every 23rd pair
  local language
  for language in de en; do
    to "$work/kept/train.$language" awk 'NR % 23 != 0' "$work/clean/train.$language"
    to "$work/kept/valid.$language" awk 'NR % 23 == 0' "$work/clean/train.$language"
    cp "$work/clean/test.$language" "$work/kept"
  done
}
step hold-out hold_out
step learn-bpe python "$prep/bpe.py" learn --operations 10000 --output "$work/codes" \
  --input "$work/kept/train.de" "$work/kept/train.en"
step bpe every kept bpe python "$prep/bpe.py" apply --codes "$work/codes"
step binarize binarize "$work/bpe"
step train train --arch "$(or_tiny vaswani_c_ff1024 vaswani_debug)" --max-tokens 4096 --max-update 50000 \
  --warmup-updates 4000 --lr-factor 0.715 --dropout 0.3 --keep-last-epochs 10
step average average --last 10
step translate translate --beam 5 --remove-bpe
step score-words to "$work/tokenized.json" vaswani bleu --tokenized --format json \
  --hypothesis "$work/test.tok" --reference "$work/tok/test.en"
step score score moses --lowercase
step bundle bundle lowercase=true tokenizer=moses normalize_punctuation=false subwords=subword-nmt "codes=$work/codes" beam=5
finish "IWSLT14 German-English" "bleu=$work/tokenized.json" "bleu=$work/bleu.json"
