#!/usr/bin/env bash
# shellcheck disable=SC2034,SC2154  # what translation.sh reads and sets
#
# What the recipes of WMT14 share: addresses, names, and the paper's training by architecture.
# Sourced after translation.sh; a recipe's recipe_defaults ends by `wmt14_defaults`.

default_arch=vaswani_base
max_tokens=4096
batch_gpus=8
real_tokens=3125 # x 8: section 5.1's 25,000
warmup_updates=4000
max_update=''
save_interval=''
average_over=updates
cleaning=(--max-length 250 --max-ratio inf) # the paper uses all 4.5M published pairs of EN-DE

archive_urls() { # NAME
  local year=wmt14 scheme
  case $1 in
    training-parallel-europarl-v7.tgz | training-parallel-commoncrawl.tgz | training-parallel-un.tgz) year=wmt13 ;;
    training-giga-fren.tar) year=wmt10 ;;
  esac
  for scheme in http https; do echo "$scheme://www.statmt.org/$year/$1"; done
}

split_names() { # SPLIT
  case $1 in
    train) echo train ;;
    valid) echo newstest2013 valid ;;
    test) echo newstest2014 test ;;
  esac
}

# Section 5: base 100,000 updates of 0.4 s, average of the last 5 checkpoints; big 300,000 of 1.0 s,
# the last 20. They were written every 10 minutes: here every 1,500 and every 600 updates, so that
# a faster or slower machine averages the same part of the training.
wmt14_defaults() {
  if [[ "$arch" == *_big* ]]; then
    average=20 max_update=${max_update:-300000} save_interval=${save_interval:-600}
  else
    average=5 max_update=${max_update:-100000} save_interval=${save_interval:-1500}
  fi
  title="$recipe, newstest2014"
  check_translation_options
}
