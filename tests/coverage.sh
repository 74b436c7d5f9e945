#!/usr/bin/env bash
# Branch coverage: which lines and branches of the paper's code do its tests run?
#
#   bash tests/coverage.sh                       # modules, search, metrics, fairseq_plugin and text
#   bash tests/coverage.sh --fail-under 95       # exits with 2 where less is covered
#
# Runs the tests of these rooms, without the slow ones. What they start as processes of their own is not
# counted, so the figures are lower bounds. All arguments go to `coverage report`.
set -euo pipefail
unset CDPATH # with it, cd may print the folder

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=recipes/lib/env.sh
VASWANI_GROUPS="test coverage" source "$root/recipes/lib/env.sh"
cd "$root"

rooms=(modules search metrics fairseq_plugin text)
tests=(tests/fairseq_plugin/models/test_fairseq_interface.py tests/fairseq_plugin/models/test_recurrent.py tests/data_prep)
files=()
for room in "${rooms[@]}"; do
  tests+=("tests/$room")
  files+=("vaswani_plugin/$room/*")
done

export PYTHONPATH=$root COVERAGE_FILE=$VASWANI_VENV/cache/coverage OMP_NUM_THREADS=1
python -m coverage run --branch --include "$(IFS=,; echo "${files[*]}")" \
  -m pytest -q -o cache_dir="$VASWANI_VENV/cache/pytest" -p no:xdist \
  -m "not slow and not gpu and not shared_data" "${tests[@]}" \
  --deselect tests/data_prep/test_bpe.py::test_an_endless_word_takes_no_time # tracing multiplies it
python -m coverage report --show-missing --skip-covered "$@"
