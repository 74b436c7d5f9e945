"""Mutants of Python files: one small change each, by cosmic-ray's operators.

A position is a piece of code that some operator can change: a comparison, a sum, a number, a
condition. A sample takes positions, then one operator of each, so that a comparison, which many
operators change, counts no more than a number.
"""

import ast
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

Place = tuple[int, int]
"""A line, from 1, and a column, from 0."""

# The first two need arguments. Without a decorator such as `torch.no_grad()` the results are the
# same, and so they are with `is` for `==` of small integers.
_UNUSED = ("VariableReplacer", "VariableInserter", "RemoveDecorator", "_Is", "_IsNot")


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Args:
        path: of the file, relative to the repository.
        operator: cosmic-ray's name of the change.
        occurrence: which of the places that the operator can change, from 0.
        start: where the changed piece begins.
    """

    path: str
    operator: str
    occurrence: int
    start: Place

    def source(self, root: Path) -> str:
        """The changed file.

        Raises:
            LookupError: the file has no such place.
        """
        operator = OperatorProvider()[self.operator]()
        changed = mutate_code((root / self.path).read_text("utf-8"), operator, self.occurrence)
        if changed is None:
            raise LookupError(f"{self.path}: {self.operator} has no place {self.occurrence}")
        return changed


def all_mutants(root: Path, path: str) -> dict[Place, list[Mutant]]:
    """Every mutant of a file by where it begins; type annotations are left alone."""
    text = (root / path).read_text("utf-8")
    tree, skipped = get_ast(text), annotations(text)
    found: dict[Place, list[Mutant]] = {}
    for name in OperatorProvider():
        if name.endswith(_UNUSED):
            continue
        operator = OperatorProvider()[name]()
        starts = [s for node in ast_nodes(tree) for s, _ in operator.mutation_positions(node)]
        for occurrence, start in enumerate(starts):
            if not any(begin <= start < end for begin, end in skipped):
                found.setdefault(start, []).append(Mutant(path, name, occurrence, start))
    return found


def annotations(text: str) -> list[tuple[Place, Place]]:
    """From where to where a file has type annotations, which no run evaluates."""
    nodes: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg | ast.AnnAssign):
            nodes.append(node.annotation)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes.append(node.returns)
    return [
        ((n.lineno, n.col_offset), (n.end_lineno or 0, n.end_col_offset or 0)) for n in nodes if n
    ]


def sample(root: Path, paths: list[str], count: int, seed: int) -> Iterator[Mutant]:
    """`count` mutants (all positions where there are fewer), in the order in which they are tried.

    Each is made when it is asked for. The same seed gives the same order whatever the count, so
    that a longer run goes on from a shorter one.
    """
    rng = random.Random(seed)
    positions = [ms for path in sorted(paths) for ms in all_mutants(root, path).values()]
    rng.shuffle(positions)
    chosen = (rng.choice(mutants) for mutants in positions)
    return itertools.islice((mutant for mutant in chosen if differs(root, mutant)), count)


def differs(root: Path, mutant: Mutant) -> bool:
    """Whether the changed file is another program: 1e20 + 1 is 1e20, and `{*a, b: c}` no Python.

    cosmic-ray takes the stars of `{**a, b: c}` for a power.
    """
    before = ast.parse((root / mutant.path).read_text("utf-8"))
    try:
        after = ast.parse(mutant.source(root))
    except SyntaxError:
        return False
    return ast.dump(after) != ast.dump(before)
