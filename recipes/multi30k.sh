#!/usr/bin/env bash
# Multi30k (29,000 image captions): trains a Transformer from scratch and scores it on test2016.
#
#   bash recipes/multi30k.sh --pair en-de
#   bash recipes/multi30k.sh --pair en-fr --data /data/multi30k --work work/multi30k-fr
#
# Batch: 8,192 tokens x 1 GPU (or the CPU) x update-freq 1 = 8,192 tokens an update, with padding;
# about 60 updates an epoch. Peak learning rate 5e-3 = lr-factor 2.53 x 128^-0.5 x 2000^-0.5.
# Expected, en-de, --preprocessing paper: 41.02 tokenized BLEU after 8,000 updates, last 10 epochs
# averaged, beam 5 (Wu et al. 2021, "Good for Misconceived Reasons", Transformer-Tiny, 2.6M
# parameters). The text is that of the Multi30k authors (Elliott et al. 2016, 2017; Barrault et
# al. 2018), for non-commercial research.
#
# --data DIR has {train,val,test_2016_flickr}.{en,de,fr}, plain or .gz, as the authors publish them.
#
# Options:
#   --pair en-de|en-fr         languages, also de-en, fr-en (default: en-de)
#   --preprocessing paper      the published setting, the default: lower-cased text, punctuation
#                              normalized, tokenized, joint BPE of 10,000 operations; tokenized BLEU
#   --preprocessing cased      cased text, tokenized, BPE; sacreBLEU of the detokenized output
#   --train-pairs N            train on the first N pairs (default: all 29,000)
#   --operations N             BPE merge operations (default: 10,000)
set -euo pipefail

recipe=multi30k
# shellcheck source=recipes/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/translation.sh"

commit=a3d2e0d26b56f3846f66a952536ffed4e401d05a
preprocessing=paper
train_pairs=''
lr_factor=2.5298
dropout=0.3

archive_urls() { echo "https://raw.githubusercontent.com/multi30k/dataset/$commit/data/task1/raw/$1"; }

archive_sum() { # NAME: as published at that commit
  case $1 in
    test_2016_flickr.de.gz) echo 9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8 ;;
    test_2016_flickr.en.gz) echo 611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9 ;;
    test_2016_flickr.fr.gz) echo 6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90 ;;
    train.de.gz) echo 726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6 ;;
    train.en.gz) echo d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f ;;
    train.fr.gz) echo 622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c ;;
    val.de.gz) echo f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a ;;
    val.en.gz) echo 14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28 ;;
    val.fr.gz) echo ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9 ;;
  esac
}

split_names() { # SPLIT
  case $1 in
    train) echo train ;;
    valid) echo val ;;
    test) echo test_2016_flickr ;;
  esac
}

recipe_option() {
  set_option "$@" pair preprocessing train_pairs operations || translation_option "$@"
}

recipe_defaults() {
  local split
  case $pair in
    en-de | de-en | en-fr | fr-en) ;;
    *) die "--pair $pair: must be en-de, en-fr, de-en or fr-en" ;;
  esac
  case $preprocessing in
    paper) lowercase=true beam=5 ;;
    cased) normalize=false ;;
    *) die "--preprocessing $preprocessing: must be paper or cased" ;;
  esac
  for split in train val test_2016_flickr; do archives+=("$split.${pair%-*}.gz" "$split.${pair#*-}.gz"); done
  data_layout="{train,val,test_2016_flickr}, .${pair%-*} and .${pair#*-}, plain or .gz"
  title="multi30k $pair, $preprocessing, test2016"
  need_counts operations
  if [[ -n "$train_pairs" ]]; then
    need_counts train_pairs
    title+=", trained on the first $train_pairs pairs"
  fi
  check_translation_options
  if [[ -n "$train_pairs" ]]; then lines[0]=$train_pairs pairs[0]=$train_pairs; fi # also with tiny
}

main_recipe "$@"
