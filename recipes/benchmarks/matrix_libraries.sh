#!/usr/bin/env bash
# Which library multiplies matrices faster on this processor: PyTorch's own choice, or oneDNN.
#
#   bash recipes/benchmarks/matrix_libraries.sh      both, 1 and 2 threads: half a minute
#
# What it prints belongs into FASTER_WITH_ONEDNN of vaswani_plugin/matrix_library.py, by the
# processor's vendor and instructions. VASWANI_MATRIX_LIBRARY=pytorch|onednn overrides the choice.
set -euo pipefail

# shellcheck source=recipes/lib/env.sh
source "$(dirname "$0")/../lib/env.sh"
exec python "$VASWANI_ROOT/recipes/benchmarks/matrix_libraries.py" "$@"
