#!/usr/bin/env bash
# All checks: lint, format, shellcheck, pytest. Makes the environment when it is missing.
#
#   bash tests/run.sh                      everything but the slow tests and those that need a GPU
#   bash tests/run.sh -m slow              the slow ones
#   bash tests/run.sh tests/modules -k mask
#
# All arguments go to pytest. VASWANI_TEST_WORKERS sets its processes (default: one a core, at
# most 4).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=recipes/lib/env.sh
source "$root/recipes/lib/env.sh"

# The arguments may name files relative to where the command was given.
arguments=()
for argument in "$@"; do
  case $argument in
    -* | /*) ;;
    *) if [[ -e "$argument" ]]; then argument=$PWD/$argument; fi ;;
  esac
  arguments+=("$argument")
done
cd "$root"

failed=()
check() { # NAME COMMAND...
  local name=$1
  shift
  printf '== %s\n' "$name"
  "$@" || failed+=("$name")
}

shell_files=()
while IFS= read -r -d '' file; do shell_files+=("$file"); done < <(
  find . \( -name .git -o -name .venv -o -path ./work -o -path "$VASWANI_VENV" \) -prune -o \
    -type f \( -name '*.sh' -o -name '*.sbatch' -o -path ./.ci/run \) -print0
)

cores=$(python -c 'import os; print(min(4, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else 2)')
# One thread a process: the processes share the cores, and tiny tensors gain nothing from threads.
export OMP_NUM_THREADS=1

check "ruff check" ruff check .
check "ruff format" ruff format --check .
check "shellcheck" shellcheck -x "${shell_files[@]}"
# A file's tests stay in one process, so that what they share is made once.
check "pytest" python -m pytest -o cache_dir="$VASWANI_VENV/cache/pytest" \
  -n "${VASWANI_TEST_WORKERS:-$cores}" --dist loadfile -m "not slow and not gpu" \
  ${arguments[@]+"${arguments[@]}"}

if ((${#failed[@]})); then
  printf 'tests: FAILED (%s) after %d s\n' "$(IFS=,; echo "${failed[*]}")" "$SECONDS" >&2
  exit 1
fi
printf 'tests: all passed in %d s\n' "$SECONDS"
