#!/usr/bin/env bash
# How every recipe begins: finds the repository, makes and activates the environment, and brings
# in common.sh. Sourced; sees the recipe's arguments.

unset CDPATH # with it, cd may print the folder
VASWANI_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# Neither help nor a dry run needs the environment.
case " $* " in *" --help "* | *" -h "* | *" --dry-run "*) VASWANI_ENV_FUNCTIONS_ONLY=1 ;; esac
# shellcheck source=recipes/lib/env.sh
source "$VASWANI_ROOT/recipes/lib/env.sh"
# shellcheck source=recipes/lib/common.sh
source "$VASWANI_ROOT/recipes/lib/common.sh"
