"""How sure a score is: bootstrap resampling over the test set, by sacreBLEU (Koehn 2004)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from vaswani_plugin.metrics.bleu import References

SAMPLES = 1000
"""Number of resampled test sets; the seed is sacreBLEU's (SACREBLEU_SEED, or 12345)."""


@dataclass(frozen=True)
class Estimate:
    """A metric of one system over the resampled test sets.

    score: on the whole test set. 95% of the samples lie between mean - half_width and mean +
    half_width. p_value: the probability of a difference from the baseline at least this large if
    the systems were equal; None for the baseline itself.
    """

    score: float
    mean: float
    half_width: float
    p_value: float | None


def bootstrap(
    systems: Sequence[Sequence[str]],
    references: References,
    metrics: Mapping[str, Metric],
    samples: int = SAMPLES,
) -> dict[str, list[Estimate]]:
    """Resample the test set and compare the systems on the same samples.

    Args:
        systems: the baseline's output first, or the only one.
        references: as for `vaswani_plugin.metrics.bleu.corpus_score`.
        metrics: by name; the result has the same names.
        samples: number of resampled test sets.

    Returns:
        For each metric, an estimate of each system, in the order of `systems`.
    """
    estimates = {}
    references = [list(lines) for lines in references]
    named: list[tuple[str, Sequence[str]]] = [
        (str(number), list(lines)) for number, lines in enumerate(systems)
    ]
    for name, metric in metrics.items():
        test = PairedTest(named, {name: metric}, references, test_type="bs", n_samples=samples)
        _, found = test()
        results: Any
        (results,) = (column for title, column in found.items() if title != "System")
        estimates[name] = [
            Estimate(r.score, float(r.mean), float(r.ci), r.p_value) for r in results
        ]
    return estimates
