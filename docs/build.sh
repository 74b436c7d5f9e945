#!/usr/bin/env bash
# Builds the documentation as a site, strictly: a warning is an error.
#
#   bash docs/build.sh                    writes work/site
#   bash docs/build.sh --site-dir DIR     writes DIR; other arguments go to mkdocs build
#
# The packages of the extra `docs` go into a folder of the environment, so that the pinned ones stay.
set -euo pipefail
unset CDPATH # with it, cd may print the folder

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=recipes/lib/env.sh
source "$root/recipes/lib/env.sh"
packages=$VASWANI_VENV/docs
wanted=$(python - "$root/pyproject.toml" <<'PY'
import sys, tomllib
from pathlib import Path
print(*tomllib.loads(Path(sys.argv[1]).read_text())["project"]["optional-dependencies"]["docs"], sep="\n")
PY
)
if [[ ! -f "$packages/wanted" || "$(<"$packages/wanted")" != "$wanted" ]]; then
  echo "docs: installing $(tr '\n' ' ' <<<"$wanted")" >&2
  rm -rf "$packages"
  list=()
  while IFS= read -r requirement; do list+=("$requirement"); done <<<"$wanted"
  python -m pip install --quiet --disable-pip-version-check --no-input --target "$packages" "${list[@]}" \
    >"$VASWANI_VENV/docs.log" 2>&1 || {
    echo "docs: error: pip failed, see $VASWANI_VENV/docs.log" >&2
    exit 1
  }
  printf '%s' "$wanted" >"$packages/wanted"
fi
cd "$root"
export PYTHONPATH="$root:$packages" NO_MKDOCS_2_WARNING=true
exec python -m mkdocs build --strict --site-dir "$root/work/site" "$@"
