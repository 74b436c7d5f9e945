"""Keywords of the methods that search: what is refused, and what a search gets."""

import pytest

from vaswani_plugin.errors import UserError
from vaswani_plugin.search.options import Options, SearchOptions


@pytest.mark.parametrize(
    ("part", "given"),
    [
        ("beam 0: must be at least 1", {"beam": 0}),
        ("nbest 0: must be at least 1", {"nbest": 0}),
        ("a beam of 2 finds no more than 2", {"beam": 2, "nbest": 3}),
        ("top_k goes with sampling", {"top_k": 3}),
        ("top_p goes with sampling", {"top_p": 0.5}),
        ("seed goes with sampling", {"seed": 1}),
        ("temperature goes with sampling", {"temperature": 0.5}),
        ("beam and sampling exclude", {"beam": 2, "sampling": True}),
        ("top_k and top_p exclude each other", {"sampling": True, "top_k": 3, "top_p": 0.5}),
        ("top_k 0: must be", {"sampling": True, "top_k": 0}),
        ("top_p 1.5: must be above 0 and at most 1", {"sampling": True, "top_p": 1.5}),
        ("top_p nan: must be above 0 and at most 1", {"sampling": True, "top_p": float("nan")}),
        ("temperature is 0.0; it must be greater", {"sampling": True, "temperature": 0.0}),
    ],
    ids=str,
)
def test_what_does_not_fit(part, given):
    with pytest.raises(UserError, match=part):
        Options(**given).search(4, 0.6)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(), {"beam": 7}),
        (Options(beam=3, nbest=2, length_penalty=0.0), {"beam": 3, "nbest": 2, "lenpen": 0.0}),
        (Options(no_repeat_ngram=3), {"beam": 7, "no_repeat_ngram_size": 3}),
        (
            Options(sampling=True, nbest=3, top_k=5, temperature=2.0),
            {"beam": 3, "nbest": 3, "sampling": True, "sampling_topk": 5, "temperature": 2.0},
        ),
        (
            Options(sampling=True, top_p=0.5, seed=3),
            {"beam": 1, "sampling": True, "sampling_topp": 0.5},
        ),
    ],
    ids=repr,
)
def test_what_a_search_gets(options, expected):
    wanted = SearchOptions(**{"nbest": 1, "lenpen": 0.3, "min_len": 2, **expected})
    assert options.search(7, 0.3, min_len=2) == wanted
