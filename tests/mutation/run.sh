#!/usr/bin/env bash
# Mutation testing: what share of small changes to the code do the tests notice? See drive.py.
#
#   bash tests/mutation/run.sh --minutes 60 --seed 1
set -euo pipefail
unset CDPATH # with it, cd may print the folder

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=recipes/lib/env.sh
source "$root/recipes/lib/env.sh"

# Only this command needs cosmic-ray, so it lies beside the environment's own packages.
tools=$VASWANI_VENV/mutation
if [[ ! -d "$tools/cosmic_ray" ]]; then
  python -m pip install -qqq --disable-pip-version-check --no-warn-conflicts --target "$tools" cosmic-ray==8.7.0
fi
PYTHONPATH="$root:$tools" exec python "$root/tests/mutation/drive.py" "$@"
