#!/usr/bin/env bash
# Mutation testing: what share of small changes to the code do the tests notice? See drive.py.
#
#   bash tests/mutation/run.sh --minutes 60 --seed 1
set -euo pipefail
unset CDPATH # with it, cd may print the folder

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=recipes/lib/env.sh
VASWANI_GROUPS="test mutation" source "$root/recipes/lib/env.sh"

PYTHONPATH="$root" exec python "$root/tests/mutation/drive.py" "$@"
