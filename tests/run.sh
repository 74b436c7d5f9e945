#!/usr/bin/env bash
# All checks: lint, format, types, shellcheck, pytest. Makes the environment when it is missing.
#
#   bash tests/run.sh                      everything but the tests that are slow, need a GPU, or need
#                                          real corpora
#   bash tests/run.sh --fast               lint, types and the quick tests: for the edit loop
#   bash tests/run.sh -m slow              the slow ones
#   bash tests/run.sh -m shared_data       those on real corpora, in the folder VASWANI_DATA
#   bash tests/run.sh tests/modules -k mask
#
# All other arguments go to pytest. VASWANI_TEST_WORKERS sets its processes (default: one more than
# there are cores, at most 5, since some tests wait).
set -euo pipefail
unset CDPATH # with it, cd may print the folder

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=recipes/lib/env.sh
VASWANI_GROUPS="test" source "$root/recipes/lib/env.sh"

# Under 90 seconds on two cores: the paper's modules, what makes a model of them, the Python
# interface of translation, the beam search beside a plain one, and the rules of the house. Recipes,
# commands and trainings are left to the full run.
quick=(tests/{modules,model,kernels,figures} tests/fairseq_plugin/test_*.py tests/inference/test_translator.py
  tests/search/test_beam_search.py::test_narrow_beam_is_the_plain_search tests/test_imports.py tests/docs/test_pages.py)

fast=
if [[ "${1:-}" == --fast ]]; then
  fast=1
  shift
fi

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

logs=$(mktemp -d)
names=() processes=() failed=()
check() { # NAME COMMAND...: starts it beside the others; `report` prints what it said
  local name=$1
  shift
  "$@" >"$logs/${#names[@]}" 2>&1 &
  names+=("$name") processes+=("$!")
}

report() {
  local number
  for number in "${!names[@]}"; do
    wait "${processes[number]}" || failed+=("${names[number]}")
    printf '== %s\n' "${names[number]}"
    cat "$logs/$number"
  done
}

stop_checks() {
  kill ${processes[@]+"${processes[@]}"} 2>/dev/null || true
  rm -rf "$logs"
}
trap stop_checks EXIT

shell_files=()
while IFS= read -r -d '' file; do shell_files+=("$file"); done < <(
  find . \( -name .git -o -name .venv -o -path ./work -o -path "$VASWANI_VENV" \) -prune -o \
    -type f \( -name '*.sh' -o -name '*.sbatch' -o -path './.ci/*' \) -print0
)

cores=$(vaswani_cores) && cores=$((cores < 4 ? cores : 4))
# One thread a process: the processes share the cores, and tiny tensors gain nothing from threads.
export OMP_NUM_THREADS=1

check "ruff check" ruff check .
check "ruff format" ruff format --check .
check "mypy" mypy --cache-dir "$VASWANI_VENV/cache/mypy"
if [[ -n "$fast" ]]; then
  arguments+=("${quick[@]}")
else
  check "shellcheck" shellcheck -x "${shell_files[@]}"
fi
# A file's tests stay in one process, so that what they share is made once.
printf '== pytest\n'
python -m pytest -o cache_dir="$VASWANI_VENV/cache/pytest" \
  -n "${VASWANI_TEST_WORKERS:-$((cores + 1))}" --dist loadfile --no-loadscope-reorder -m "not slow and not gpu and not shared_data" \
  ${arguments[@]+"${arguments[@]}"} || failed+=(pytest)
report

if ((${#failed[@]})); then
  printf 'tests: FAILED (%s) after %d s\n' "$(IFS=,; echo "${failed[*]}")" "$SECONDS" >&2
  exit 1
fi
printf 'tests: all passed in %d s\n' "$SECONDS"
