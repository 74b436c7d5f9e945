#!/usr/bin/env bash
# Trains a Transformer language model to summarize: one sequence `article <sep> summary`.
#
#   bash recipes/summarization.sh
#   bash recipes/summarization.sh --corpus cnn-dailymail --data /data/cnn_dailymail
#
# Data: scitldr (Cachola et al. 2020, abstracts of papers, Apache 2.0; published checksums): 1,992, 619
# and 618 articles, the latter two with several summaries each, of which the best match counts.
# cnn-dailymail (Hermann et al. 2015) has no address without a consent page: --data DIR has train.csv,
# validation.csv and test.csv (columns article and highlights); scitldr's {train,dev,test}.jsonl{,.gz}.
# An article and its summary share 384 tokens, of which the summary has at most 64; the article is cut.
# Batch: 4,096 tokens with padding, about 110 updates an epoch of scitldr in 8,000 BPE units. Peak
# rate 2.5e-3 = lr-factor 0.9 x 128^-0.5 x 1000^-0.5. The last 5 states are averaged.
# Expected: no score is published for such small models. From scratch on 1,992 summaries they do not
# reach the baseline in the same table, the first sentence of the article (news: the first three).
#
# Option of this recipe:
#   --corpus NAME    scitldr (default), cnn-dailymail
recipe=summarization family=vaswani_lm corpus=scitldr options='corpus'
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
begin "$@"
[[ " ${extra[*]-} " != *" --tokens-per-sample"* ]] || die "--tokens-per-sample: article and summary have their lengths in this recipe; edit its lines"

format=scitldr lead=1 files=(train.jsonl dev.jsonl test.jsonl)
if [[ $corpus == cnn-dailymail ]]; then
  format=csv lead=3 files=(train.csv validation.csv test.csv)
  [[ -n $data ]] || die "--corpus cnn-dailymail: give its folder with --data DIR"
elif [[ $corpus != scitldr ]]; then
  die "--corpus $corpus: must be scitldr or cnn-dailymail"
elif [[ -z $data ]] && is_tiny; then
  data=$toy/summaries files=(train.jsonl valid.jsonl test.jsonl)
elif [[ -z $data ]]; then
  url=https://raw.githubusercontent.com/allenai/scitldr/5ccad9c00a60ad75c9e04abf7f27d0f53f983b20/SciTLDR-Data/SciTLDR-A
  for file in "${files[@]}"; do step "download-$file" download "$url/$file"; done
fi
index=0
for split in train valid test; do
  file=${data:-$work/download}/${files[index]}
  if [[ ! -f $file && -f $file.gz ]]; then file+=.gz; fi
  step "input-$split" python "$prep/summaries.py" --format "$format" --input "$file" --output "$work/input/$split"
  for part in article summary jsonl; do step "$part-$split" to "$work/raw/$split.$part" text "$work/input/$split.$part"; done
  index=$((index + 1))
done
step code python "$prep/code_text.py" --coding bpe --operations "$(or_tiny 8000 400)" --summaries \
  --article-tokens 318 --summary-tokens 64 --output "$work/data-bin" \
  --train "$work/raw/train" --valid "$work/raw/valid" --test "$work/raw/test"
step train train --task vaswani_language_modeling --arch "$(or_tiny vaswani_lm_tiny vaswani_lm_debug)" \
  --tokens-per-sample 384 --sample-break-mode eos --loss-after '<sep>' --max-tokens 4096 --max-update 4000 \
  --warmup-updates 1000 --lr-factor 0.9 --no-epoch-checkpoints \
  --save-interval-updates "$(or_tiny 200 4)" --keep-interval-updates 5
step average average --last-updates 5
step bundle python "$prep/bundle.py" --model "$work/averaged.pt" --data-bin "$work/data-bin" --output "$work/model" beam=4
step summarize vaswani summarize --model "$work/model" --no-repeat-ngram-size 3 ${cpu:+--cpu} \
  --output "$work/test.out" "$work/raw/test.article"
step score to "$work/rouge.json" vaswani rouge --hypothesis "$work/test.out" --references "$work/raw/test.jsonl" \
  --lead "$lead" --format json
finish "summarization of $corpus, test" "rouge=$work/rouge.json"
