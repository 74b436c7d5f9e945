# shellcheck shell=bash
# What the comparisons with stock fairseq begin with; sourced with their arguments,
# DATA_BIN WORK [UPDATES [SEED]]. Sets root, data_bin, work, updates and seed, and activates the
# environment; without two arguments it prints the comment at the script's head and leaves.
if [[ $# -lt 2 ]]; then
  awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"
  [[ ${1:-} == --help ]]
  exit
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034  # for the script that sources this
data_bin=$1 updates=${3:-1000} seed=${4:-1}
work=$2
# shellcheck source=recipes/lib/env.sh
source "$root/recipes/lib/env.sh"
mkdir -p "$work"
export OMP_NUM_THREADS=1
