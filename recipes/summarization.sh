#!/usr/bin/env bash
# Trains a Transformer language model to summarize: one sequence `article <sep> summary`.
#
#   bash recipes/summarization.sh --corpus scitldr
#   bash recipes/summarization.sh --corpus cnn-dailymail --data /data/cnn_dailymail
#
# Batch: 4,096 tokens with padding x 1 GPU (or the CPU) x update-freq 1; scitldr in 8,000 BPE units
# has about 110 updates an epoch. Peak learning rate 2.5e-3 = lr-factor 0.9 x 128^-0.5 x 1000^-0.5.
# The last 5 states are averaged.
# Expected: no score is published for such small models. The baseline in the same table is the first
# sentence of the article (lead-1; for news the first three). It is strong: a model trained from
# scratch on scitldr's 1,992 summaries does not reach it.
#
# An article and its summary share --tokens-per-sample tokens. A summary is cut to --summary-tokens
# tokens, and the article to the rest. `vaswani summarize` cuts articles in the same way.
#
# Data: scitldr (Cachola et al. 2020, abstracts of papers, Apache 2.0): 1,992, 619 and 618 articles,
# the latter two with several summaries each, of which the best match counts. Downloads are checked
# against published checksums. cnn-dailymail (Hermann et al. 2015) has no address without a consent page:
# give --data DIR with train.csv, validation.csv and test.csv (columns article and highlights), or
# folders train, valid and test of .story files, or .story files anywhere below it and the lists
# all_train.txt, all_val.txt and all_test.txt of addresses. --data DIR for scitldr has
# {train,dev,test}.jsonl, plain or .gz. --scale tiny without --data makes articles here.
#
# Options:
#   --corpus NAME         scitldr (default), cnn-dailymail
#   --summary-tokens N    longest summary in tokens (default: 64)
#   --loss-on PART        tokens that the loss counts: summary (default), or both, article and summary
#   --no-repeat-ngram-size N   never repeat N successive tokens in a summary (default: 3; 0: no limit)

# shellcheck disable=SC2128  # `data` is a local array elsewhere
set -euo pipefail

recipe=summarization
# shellcheck source=recipes/lib/language_model.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/language_model.sh"
stages=(fetch unpack code train average bundle summarize score)
by_content=(unpack code train)

corpus=scitldr
summary_tokens=64
loss_on=summary
no_repeat=3
tokens_per_sample=384
tiny_tokens_per_sample=128
beam=4

archive_urls() { echo "https://raw.githubusercontent.com/allenai/scitldr/5ccad9c00a60ad75c9e04abf7f27d0f53f983b20/SciTLDR-Data/SciTLDR-A/$1"; }

archive_sum() { # NAME
  case $corpus/$1 in
    scitldr/train.jsonl) echo b222771d387be585cfdf5ae957b36757138415a352e0a3e3b23f73f87c3b1119 ;;
    scitldr/dev.jsonl) echo 3191fa98ccc09521332b7a1cd63b1930be4e8df125a235ccd31e40329709525e ;;
    scitldr/test.jsonl) echo fb42dd6cd4f4a1928ae8a01a189456fbfe994a07e938bd49f68653933f6503c9 ;;
  esac
}

recipe_option() {
  case $1 in
    --no-repeat-ngram-size) no_repeat=$2 ;;
    *) set_option "$@" corpus summary_tokens loss_on || language_model_option "$@" ;;
  esac
}

recipe_defaults() {
  local article_tokens
  case $corpus in
    scitldr) archives=(train.jsonl dev.jsonl test.jsonl) lead=1 data_layout="train, dev and test, .jsonl or .jsonl.gz" ;;
    cnn-dailymail) lead=3 data_layout="train, validation and test, .csv, or .story files" ;;
    *) die "--corpus $corpus: must be scitldr or cnn-dailymail" ;;
  esac
  need_counts summary_tokens
  [[ "$no_repeat" == 0 ]] || need_count --no-repeat-ngram-size "$no_repeat"
  check_language_model_options
  title="summarization $corpus, $coding, test"
  if [[ "$layout" == made ]]; then title="summarization of made-up articles, $coding, test"; fi
  if [[ "$scale" == tiny ]] && ((summary_tokens > tiny_tokens_per_sample / 4)); then
    summary_tokens=$((tiny_tokens_per_sample / 4))
  fi
  article_tokens=$((tokens_per_sample - summary_tokens - 2)) # <sep> and the end
  ((article_tokens > 0)) || die "--summary-tokens $summary_tokens: leaves no room for an article in --tokens-per-sample $tokens_per_sample"
  coding_options=(--summaries --article-tokens "$article_tokens" --summary-tokens "$summary_tokens")
  training_options=(--sample-break-mode eos)
  case $loss_on in
    summary) training_options+=(--loss-after '<sep>') ;;
    both) ;;
    *) die "--loss-on $loss_on: must be summary or both" ;;
  esac
}

choose_layout() {
  published=${data:-$work/download}
  layout=jsonl
  if [[ -z "$data" ]]; then
    if [[ "$scale" == tiny ]]; then layout=made; fi
    [[ "$layout" == made || "$corpus" == scitldr ]] || die "--corpus $corpus: give its folder with --data DIR"
  elif [[ "$corpus" == cnn-dailymail ]]; then
    if [[ -f "$(text_file test csv)" ]]; then
      layout=csv
    elif [[ -f "$published/all_test.txt" ]]; then
      layout=lists
    else
      layout=stories
    fi
  fi
}

text_file() { # SPLIT ENDING: its file; if there is none, its published name
  local name ending names=("$1")
  if [[ "$1" == valid ]]; then names=(valid validation dev val); fi
  for name in "${names[@]}"; do
    for ending in '' .gz; do
      if [[ -f "$published/$name.$2$ending" ]]; then
        echo "$published/$name.$2$ending"
        return
      fi
    done
  done
  case $1.$2 in
    valid.jsonl) echo "$published/dev.jsonl" ;;
    valid.csv) echo "$published/validation.csv" ;;
    *) echo "$published/$1.$2" ;;
  esac
}

list_file() { if [[ "$1" == valid ]]; then echo "$published/all_val.txt"; else echo "$published/all_$1.txt"; fi; }

source_files() { # the input files, one a line; for stories their lists, or one story of each split
  local split
  for split in train valid test; do
    case $layout in
      made) printf '%s\n' "$toy"/summaries/* && return ;;
      jsonl | csv) text_file "$split" "$layout" ;;
      lists) list_file "$split" ;;
      stories) find "$published/$split" -name '*.story' 2>/dev/null | LC_ALL=C sort | head -n 1 | grep . || echo "$published/$split/some.story" ;;
    esac
  done
}

stage_unpack() {
  local index split options
  fresh_folder "$work/raw"
  if [[ "$layout" == made ]]; then
    toy_folder=$work/parts unpack_toy summaries jsonl
  fi
  for index in 0 1 2; do
    split=${splits[index]}
    case $layout in
      made) options=(--format scitldr --input "$work/parts/$split.jsonl") ;;
      jsonl) options=(--format scitldr --input "$(text_file "$split" jsonl)") ;;
      csv) options=(--format csv --input "$(text_file "$split" csv)") ;;
      lists) options=(--format stories --input "$published" --urls "$(list_file "$split")") ;;
      stories) options=(--format stories --input "$published/$split") ;;
    esac
    run python "$prep/summaries.py" "${options[@]}" --most "${lines[index]}" \
      --output "$(raw_prefix "$split")"
  done
  if [[ -z "$dry_run" ]]; then rm -rf "$work/parts"; fi
}

key_summarize() {
  digests "$work/averaged.pt" "$work/raw/test.article"
  printf 'beam %s no-repeat %s\n' "$beam" "$no_repeat"
}

stage_summarize() {
  local command=(vaswani summarize --model "$work/model" --output "$work/output/test.summary")
  if [[ "$device" == cpu ]]; then command+=(--cpu); fi
  if ((no_repeat)); then command+=(--no-repeat-ngram-size "$no_repeat"); fi
  fresh_folder "$work/output"
  run "${command[@]}" "$work/raw/test.article"
}

key_score() {
  key_summarize
  digests "$work/raw/test.jsonl"
}

stage_score() {
  run_to "$work/output/rouge.json" vaswani rouge --hypothesis "$work/output/test.summary" \
    --references "$work/raw/test.jsonl" --lead "$lead" --format json
  write_result rouge "$work/output/rouge.json"
}

show_result() {
  python "$lib/report_table.py" rouge "$work/output/rouge.json"
  python "$lib/summary.py" "$work/result.json" --title "$title"
}

main_recipe "$@"
