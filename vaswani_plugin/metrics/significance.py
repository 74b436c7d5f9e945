"""How sure a score is: bootstrap resampling over the test set, by sacreBLEU (Koehn 2004)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from vaswani_plugin.metrics.bleu import References

SAMPLES = 1000
"""Test sets drawn from the test set; the seed is sacreBLEU's (SACREBLEU_SEED, or 12345)."""


@dataclass(frozen=True)
class Estimate:
    """A metric of one system over the resampled test sets.

    score is that of the whole test set; 95% of the samples lie in mean - half_width ... mean +
    half_width. p_value: how likely the system would differ from the baseline by as much if they
    were equal; None for the baseline itself.
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
        metrics: by the name that the result has for them.
        samples: number of resampled test sets.

    Returns:
        For each metric an estimate of each system, in their order.
    """
    estimates = {}
    references = [list(lines) for lines in references]
    named = [(str(number), list(lines)) for number, lines in enumerate(systems)]
    for name, metric in metrics.items():
        test = PairedTest(named, {name: metric}, references, test_type="bs", n_samples=samples)
        _, found = test()
        (results,) = (column for title, column in found.items() if title != "System")
        estimates[name] = [
            Estimate(r.score, float(r.mean), float(r.ci), r.p_value) for r in results
        ]
    return estimates
