#!/usr/bin/env bash
# What `vaswani serve` gains by batches across requests, what it adds to a single request, and
# whether its memory stays as it is.
#
#   bash recipes/benchmarks/serving.sh --model WORK/model --lines RAW_TEXT [--minutes 20]
#
# --help lists the options. Expected: no error; 32 clients at least 3 times the throughput of one
# request at a time; 95% of single requests within 30 ms of the bare Translator; under clients of all
# kinds memory grows by at most 5% from the first third of the minutes to the last, and no 5xx but
# 503 is answered; SIGTERM ends it within 15 s; exit code 1 otherwise.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/serving.py" "$@"
