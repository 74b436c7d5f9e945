#!/usr/bin/env bash
# Table 3: trains the table's rows on one data set, with the same settings except for what a row
# changes. Prints the table as in the paper, with the published figures beside ours.
#
#   bash recipes/table3.sh --gpus 8                           # all 20 rows, each on one GPU
#   bash recipes/table3.sh --scale tiny                       # all 20 rows, an hour on one core
#   bash recipes/table3.sh base a c_n2 --scale tiny           # rows by name, or all rows of a letter
#   bash recipes/table3.sh base a --scale tiny --data-bin work/multi30k/data-bin
#
# Rows: base, (A) a_h1 a_h4 a_h16 a_h32, (B) b_dk16 b_dk32, (C) c_n2 c_n4 c_n8 c_d256 c_d1024
# c_ff1024 c_ff4096, (D) d_drop00 d_drop02 d_eps00 d_eps02, (E) e_learned, big. Name rows before
# the options. The table shows every row that was trained in WORK with the same options, so that
# rows may be added later.
#
# Batch, --scale full: 4,096 tokens x 8 GPUs, padding included, 100,000 updates (big:
# 300,000); with fewer GPUs a row accumulates gradients over more batches. Expected on newstest2013:
# PPL 4.92 and 25.8 BLEU for base, 4.33 and 26.4 for big (Vaswani et al. 2017, Table 3).
# --scale tiny, on Multi30k: every width divided by 8 (d_model 64, d_ff 256, d_k 8), N by 2, 1,024
# tokens x 1 CPU or GPU, 900 updates for each row (big: 2,700); about 150 s per row on one core.
# Perplexity is per word piece. BLEU is tokenized BLEU of the validation set, beam 4, alpha 0.6. As
# in the paper's table, no checkpoints are averaged. With several --seeds the figures of a row are
# means, its change from base has a standard error, and the rank correlation with the paper is also
# given for the rows whose change is larger than two standard errors.
#
# --data DIR goes to the recipe of the corpus. The data are in WORK/data, each training in
# WORK/rows/ROW-SEED (`vaswani curves WORK/rows/*-[0-9]*` compares them), and the table in
# WORK/table3.md, .csv and .png.
set -euo pipefail

recipe=table3
# shellcheck source=recipes/lib/start.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/start.sh"

# shellcheck source=recipes/lib/prepared.sh
source "$VASWANI_ROOT/recipes/lib/prepared.sh"

stages=(prepare rows table)
by_content=(rows)
rows=()
width_divisor='' depth_divisor='' max_tokens='' max_update='' warmup_updates='' lr_factor=''
seeds=1
base_seeds=''
threads=1

recipe_usage() {
  cat <<'HELP'

Options of this recipe (in brackets: the defaults of --scale tiny, of --scale full):
  --corpus multi30k|tatoeba|wmt14_en_de|quickstart   data set, by its recipe (multi30k, wmt14_en_de)
  --pair en-de               languages, for multi30k and tatoeba: also de-en, en-fr, fr-en
  --train-pairs N            the first N pairs of multi30k (all)
  --operations N             BPE merges of multi30k and tatoeba (10,000; 8,000)
  --data-bin DIR             binarized data, instead of --corpus
  --width-divisor D          divide d_model, d_ff, d_k and d_v of every row by D (8, 1)
  --depth-divisor D          divide the number of layers N of every row by D (2, 1)
  --max-tokens N             tokens in a batch, padding included, per GPU (1024, 4096)
  --max-update N             updates of each row; big takes three times as many (900, 100000)
  --warmup-updates N         updates during which the learning rate rises (200, 4000)
  --lr-factor F              factor of the learning rate of Eq. 3 (0.6, 1.0)
  --seeds S,S                random seeds of every row, a training each (1)
  --base-seeds S,S           random seeds of base, from which the deviation between seeds is
                             estimated (as --seeds)
  --parallel N               trainings to run at the same time, each on --gpus / N GPUs (as many as
                             GPUs; 1 on a CPU)
  --threads N                CPU threads of each training (1)
HELP
}

recipe_option() {
  set_option "$@" width_divisor depth_divisor max_tokens max_update warmup_updates lr_factor \
    seeds base_seeds parallel threads ||
    data_option "$@"
}

recipe_defaults() {
  local seed=1 batch_gpus=8 # the seed is that of the quickstart's sentences
  if [[ "$scale" == tiny ]]; then
    corpus=${corpus:-multi30k} batch_gpus=0
    width_divisor=${width_divisor:-8} depth_divisor=${depth_divisor:-2}
    max_tokens=${max_tokens:-1024} max_update=${max_update:-900}
    warmup_updates=${warmup_updates:-200} lr_factor=${lr_factor:-0.6}
  else
    corpus=${corpus:-wmt14_en_de}
    width_divisor=${width_divisor:-1} depth_divisor=${depth_divisor:-1}
    max_tokens=${max_tokens:-4096} max_update=${max_update:-100000}
    warmup_updates=${warmup_updates:-4000} lr_factor=${lr_factor:-1.0}
  fi
  choose_parallel
  need_counts width_divisor depth_divisor max_tokens max_update warmup_updates
  need_seeds --seeds "$seeds"
  base_seeds=${base_seeds:-$seeds}
  need_seeds --base-seeds "$base_seeds"
  need_counts threads
  need_number --lr-factor "$lr_factor"
  max_update_big=$((3 * max_update))
  choose_devices "$batch_gpus"
  choose_data multi30k tatoeba wmt14_en_de quickstart
}

choose_devices() { # GPUS that the batch is meant for; sets update_freq
  local share=1
  if [[ "$device" == gpu ]]; then
    share=$((gpus / parallel))
  fi
  update_freq=1
  if (($1)); then
    (($1 % share == 0)) || die "--parallel $parallel: batches for $1 GPUs can't be shared out to $share GPUs a row"
    update_freq=$(($1 / share))
  fi
}

set_flags() { # sets `flags`: the flags of both scripts
  local key
  key=$(data_key)
  flags=(--work "$work" --data-key "$key" --width-divisor "$width_divisor"
    --depth-divisor "$depth_divisor" --max-tokens "$max_tokens" --update-freq "$update_freq"
    --max-update "$max_update" --max-update-big "$max_update_big"
    --warmup-updates "$warmup_updates" --lr-factor "$lr_factor" --seeds "$seeds"
    --base-seeds "$base_seeds" --gpus-each $((gpus / parallel)))
}

key_rows() {
  local flags
  set_flags
  printf 'rows %s flags %s\n' "${rows[*]-}" "${flags[*]}"
}

stage_rows() {
  local flags
  set_flags
  run_models "$lib/table3_train.py" ${rows[@]+"${rows[@]}"} "${flags[@]}" --data-bin "$data_bin" \
    --parallel "$parallel" --threads "$threads"
}

key_table() { key_rows; }

stage_table() {
  local flags
  set_flags
  run python "$lib/table3_report.py" "${flags[@]}" --title "$title"
}

while (($#)) && [[ "$1" != -* ]]; do
  rows+=("$1")
  shift
done
main_recipe "$@"
