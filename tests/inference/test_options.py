"""The options of translating, completing, parsing and summarizing: what is refused, and what a
search gets."""

import pytest

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.options import (
    CompletionOptions,
    ParseOptions,
    SummaryOptions,
    TranslateOptions,
    require_at_least,
)
from vaswani_plugin.search.options import SearchOptions

KINDS = (TranslateOptions, CompletionOptions, ParseOptions, SummaryOptions)
SAMPLED = (TranslateOptions, CompletionOptions)


def refused(part: str, kinds, **given: object) -> None:
    for kind in kinds:
        with pytest.raises(UserError, match=part):
            kind.of(given).search_options()


@pytest.mark.parametrize("value", [0, -1])
def test_counts_are_positive(value):
    refused(f"--beam {value}: must be at least 1", KINDS, beam=value)
    refused(f"--nbest {value}: must be at least 1", KINDS[:3], nbest=value)
    refused(f"--batch-tokens {value}: must be at least 1", KINDS, batch_tokens=value)
    refused(f"--max-length {value}: ", [SummaryOptions], max_length=value)
    refused(f"--max-new-tokens {value}: ", [CompletionOptions], max_new_tokens=value)
    with pytest.raises(UserError, match=f"--buffer {value}: must be at least 1"):
        require_at_least(buffer=value)
    refused("--no-repeat-ngram -1: must be at least 0", [SummaryOptions], no_repeat_ngram=-1)


def test_what_does_not_fit_together():
    refused("a beam of 2 finds no more than 2", KINDS[:3], beam=2, nbest=3)
    for name, value in (("top_k", 3), ("top_p", 0.5), ("seed", 1), ("temperature", 0.5)):
        refused(f"--{name.replace('_', '-')} goes with --sampling", SAMPLED, **{name: value})
    refused("--beam and --sampling exclude", SAMPLED, beam=2, sampling=True)
    refused("--top-k and --top-p exclude", SAMPLED, sampling=True, top_k=3, top_p=0.5)
    for value in (0, 1.5, float("nan")):
        refused("--top-p .*: must be above 0 and at most 1", SAMPLED, sampling=True, top_p=value)
    refused("temperature is 0.0; it must be greater", SAMPLED, sampling=True, temperature=0.0)
    refused("long is 'drop'; it must be error or split or truncate", SAMPLED[:1], long="drop")
    refused("long is 'split'; it must be cut or error", SAMPLED[1:], long="split")
    refused("stop is 'always'; it must be end or never", SAMPLED[1:], stop="always")


def test_an_unknown_name_is_refused_with_those_there_are():
    refused("beams: no option of that name; there are beam, nbest", KINDS[:3], beams=3)
    refused("nbest: no option of that name; there are beam, length", [SummaryOptions], nbest=2)
    refused("sampling: no option of that name", KINDS[2:], sampling=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (TranslateOptions(), {"beam": 7, "nbest": 1}),
        (TranslateOptions(beam=3, align=True), {"beam": 3, "nbest": 1, "print_alignment": "hard"}),
        (
            TranslateOptions(length_penalty=0.0, min_length=2),
            {"beam": 7, "lenpen": 0, "min_len": 2},
        ),
        (
            TranslateOptions(sampling=True, nbest=3, top_k=5, temperature=2.0),
            {"beam": 3, "nbest": 3, "sampling": True, "sampling_topk": 5, "temperature": 2.0},
        ),
        (CompletionOptions(beam=2), {"beam": 2, "lenpen": 0.0, "min_len": 0}),
        (ParseOptions(), {"beam": 7, "lenpen": 0.3}),
        (SummaryOptions(), {"beam": 7, "lenpen": 0.6}),
    ],
    ids=repr,
)
def test_what_a_search_gets(options, expected):
    assert options.search_options(7) == SearchOptions(**{"nbest": 1, **expected})


def test_beams_where_the_bundle_has_none():
    beams = [kind().search_options().beam for kind in KINDS]
    assert beams == [4, 1, 21, 4]  # the paper's; greedy; section 6.3; the paper's
