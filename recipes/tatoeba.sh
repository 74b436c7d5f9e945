#!/usr/bin/env bash
# Tatoeba (some 150,000 short everyday sentence pairs): a middle-sized training on one machine.
#
#   bash recipes/tatoeba.sh --pair en-de
#   bash recipes/tatoeba.sh --pair en-fr --data /data/tatoeba-en-fr
#
# Batch: 8,192 tokens x 1 GPU (or the CPU) x update-freq 1 = 8,192 tokens an update, with padding;
# about 200 updates an epoch. Peak learning rate 5e-3 = lr-factor 2.53 x 128^-0.5 x 2000^-0.5.
# Expected: no score is published for this split. docs/results/ancestors.md has scores of small models.
#
# Data: the pairs of manythings.org/anki (from tatoeba.org, CC BY 2.0 FR). The site refuses some
# scripts; if it does, download deu-eng.zip or fra-eng.zip with a browser and give its folder as
# --data. No checksum is published, and the download was not tried here: WORK/download/SHA256SUMS
# keeps the checksum of the first download, and a different file is refused later.
# There is no standard split. Pairs that share a sentence (compared by letters and digits, case
# ignored) are in the same split, so that no test sentence occurs in training. --data DIR may also
# hold plain or .gz text: train, valid and test, each .en and .de (.fr). --scale tiny without --data
# takes data-prep/toy.
#
# Options:
#   --pair en-de|en-fr         languages, also de-en, fr-en (default: en-de)
#   --operations N             BPE merge operations (default: 8,000)
set -euo pipefail

recipe=tatoeba
# shellcheck source=recipes/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/translation.sh"

lines=(0 2000 2000)
cleaning=(--max-length 100 --max-ratio 9)
operations=8000
max_update=20000
lr_factor=2.5298
dropout=0.1

archive_urls() { echo "https://www.manythings.org/anki/$1"; }

# The archive has one file, English before the other language, which is split here.
unpack_archives() {
  local name=${archives[0]%-eng.zip}.txt foreign=$target_lang
  if [[ "$target_lang" == en ]]; then foreign=$source_lang; fi
  fresh_folder "$work/parts"
  run python "$prep/unpack.py" --archive "$published/${archives[0]}" \
    --member "$name" --format column:1 --output "$work/parts/all.en" \
    --member "$name" --format column:2 --output "$work/parts/all.$foreign"
  run python "$lib/split_groups.py" "$work/parts/all.en" "$work/parts/all.$foreign" \
    --output "$work/raw" --train "${lines[0]}" --valid "${lines[1]}" --test "${lines[2]}"
  if [[ -z "$dry_run" ]]; then rm -r "$work/parts"; fi
}

recipe_option() { set_option "$@" pair operations || translation_option "$@"; }

recipe_defaults() {
  case $pair in
    en-de | de-en) archives=(deu-eng.zip) ;;
    en-fr | fr-en) archives=(fra-eng.zip) ;;
    *) die "--pair $pair: must be en-de, en-fr, de-en or fr-en" ;;
  esac
  need_counts operations
  corpora=("all ${archives[0]} sentences")
  title="tatoeba $pair"
  check_translation_options
}

main_recipe "$@"
