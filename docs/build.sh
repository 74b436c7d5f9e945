#!/usr/bin/env bash
# Builds the documentation as a site, strictly: a warning is an error.
#
#   bash docs/build.sh                    writes work/site
#   bash docs/build.sh --site-dir DIR     writes DIR; other arguments go to mkdocs build
set -euo pipefail
unset CDPATH # with it, cd may print the folder

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=recipes/lib/env.sh
VASWANI_GROUPS="docs" source "$root/recipes/lib/env.sh"
cd "$root"
export PYTHONPATH="$root" NO_MKDOCS_2_WARNING=true
exec python -m mkdocs build --strict --site-dir "$root/work/site" "$@"
