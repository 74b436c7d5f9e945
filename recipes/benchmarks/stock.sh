# shellcheck shell=bash
# What the comparisons with stock fairseq begin with; sourced with their arguments,
# DATA_BIN WORK [UPDATES [SEED [MORE]]]. Sets data_bin, work, updates and seed, and activates the
# environment; without two arguments it prints the comment at the script's head and leaves.
if [[ $# -lt 2 ]]; then
  awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"
  [[ ${1:-} == --help ]]
  exit
fi
# shellcheck disable=SC2034  # for the script that sources this
data_bin=$1 updates=${3:-1000} seed=${4:-1}
work=$2
# shellcheck source=recipes/lib/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/env.sh"
mkdir -p "$work"
export OMP_NUM_THREADS=1

# Makes the folder of one side, $work/NAME. A folder and a log, $work/NAME.log, of other SETTINGS are
# deleted; those of the same settings stay, and the training continues.
begin_side() { # NAME SETTINGS
  local name=$1 settings=$2 known=''
  if [[ -f "$work/$name/settings" ]]; then known=$(<"$work/$name/settings"); fi
  if [[ "$known" != "$settings" ]]; then
    rm -rf "${work:?}/$name" "$work/$name"[.-]*
    mkdir "$work/$name"
    printf '%s\n' "$settings" >"$work/$name/settings"
  fi
}

# The paper's training in stock's words: Adam, and a rate that falls as in Eq. 3 from 2.5e-3.
# shellcheck disable=SC2034  # for the script that sources this
stock_optimization=(--optimizer adam --adam-betas '(0.9, 0.98)' --adam-eps 1e-9
  --lr-scheduler inverse_sqrt --lr 2.5e-3)
