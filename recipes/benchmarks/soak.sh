#!/usr/bin/env bash
# Trains for half an hour, then translates random lines for half an hour, and watches memory, open
# files and speed.
#
#   bash recipes/benchmarks/soak.sh --data DATA_BIN --model BUNDLE --lines RAW_TEXT [--minutes 30]
#
# --help lists the options. Expected: from the first third to the last, after a warm-up of a fifth,
# memory grows by at most 5%, open files not at all, and work a processor second falls by at most
# 10%; exit code 1 otherwise.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/soak.py" "$@"
