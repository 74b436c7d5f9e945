"""Threads that share a batch find what one thread finds in the whole of it."""

import argparse
import threading

import numpy as np
import pytest
import search_setup
import torch

from vaswani_plugin.search import search as search_module
from vaswani_plugin.search.models import Sources
from vaswani_plugin.search.search import BeamSearch, run_in_threads

pytest.importorskip("vaswani_plugin.kernels", reason="only packed weights share a batch")
SYMBOLS = 60
FIRST_WORD = 4
SENTENCES = 41


@pytest.fixture(scope="module")
def sample():
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randint(1, 12, (SENTENCES,), generator=generator).tolist()
    draw = [torch.randint(FIRST_WORD, SYMBOLS, (n,), generator=generator) for n in lengths]
    return search_setup.make_sample([words.tolist() for words in draw])


@pytest.fixture
def threads_of_search(monkeypatch):
    """Of each search, whose work is worth threads: its thread, sentences and PyTorch's threads."""
    monkeypatch.setattr(search_module, "WORTH_THREADS", 0)
    found = []
    run = BeamSearch.run

    def watched(self):
        found.append((threading.get_ident(), len(self.limits), torch.get_num_threads()))
        return run(self)

    monkeypatch.setattr(BeamSearch, "run", watched)
    return found


@pytest.fixture(autouse=True)
def the_number_of_threads_stays():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class Residues:
    """No word follows whose rest by 3 is that of the sum of the source and the words before."""

    def __init__(self, sources, limits):
        self.sums = sources.sum(dim=1, keepdim=True)  # (B, W)

    def advance(self, tokens, parents):
        if parents is not None:
            self.sums = self.sums.gather(1, parents) + tokens

    def __call__(self, log_p, step):
        words = torch.arange(log_p.size(-1))
        forbidden = words % 3 == self.sums[step.part, :, None] % 3
        log_p.masked_fill_(forbidden & words.ge(FIRST_WORD), -torch.inf)

    def keep(self, sentences):
        self.sums = self.sums[sentences]


def generate(sample, threads, members=1, task=(), prefix=None, own=True, **options):
    torch.set_num_threads(threads)
    task = search_setup.make_translation_task(SYMBOLS, **dict(task))
    models = [search_setup.make_peaked_model(SYMBOLS, seed) for seed in range(members)]
    for model in models if own else ():
        model.prepare_for_inference_(argparse.Namespace(generation=None))
    for model in models if not own else ():
        model.decoder.register_forward_hook(lambda *_: None)
    generator = search_setup.make_generator(task, models, max_len_a=1, max_len_b=5, **options)
    found = generator.generate(models, sample, prefix_tokens=prefix)
    assert torch.get_num_threads() == threads
    return found


PREFIX = torch.arange(SENTENCES * 3).view(-1, 3) % 40 + FIRST_WORD
SHARED = {"paper": {}, "fairseq": {"task": {"length_penalty": "fairseq"}}}
SHARED |= {"ensemble": {"members": 2}, "alignment": {"print_alignment": "hard"}}
SHARED |= {"diverse": {"beam": 6, "diverse_beam_groups": 3}, "prefix": {"prefix": PREFIX}}
SHARED |= {"constraints": {"no_repeat_ngram_size": 2, "min_len": 4}}
SHARED |= {"tracker": {"start_tracking": (Residues,)}}
ALONE = {
    "sampling": {"sampling": True},
    "decoded by its own forward": {"own": False},
    "allowed": {"prefix_allowed_tokens_fn": lambda sentence, tokens: [2, 5, 6]},  # 2: the end
}


@pytest.mark.parametrize("case", SHARED)
def test_they_find_what_one_finds(sample, threads_of_search, case):
    options = SHARED[case]
    alone = generate(sample, 1, **options)
    assert len(threads_of_search) == 1
    shared = generate(sample, 3, **options)
    assert sorted(n for _, n, _ in threads_of_search[1:]) == [13, 14, 14]
    assert threading.get_ident() not in {thread for thread, *_ in threads_of_search[1:]}
    for one, other in zip(alone, shared, strict=True):
        for (tokens, score), (same_tokens, same_score) in zip(
            search_setup.outputs_of(one), search_setup.outputs_of(other), strict=True
        ):
            assert tokens == same_tokens
            assert score == pytest.approx(same_score, abs=1e-5, rel=1e-5)
        assert str(one[0]["alignment"]) == str(other[0]["alignment"])


def test_pytorchs_threads_are_divided(sample, threads_of_search):
    generate(sample, 9)
    assert [inner for *_, inner in threads_of_search] == [2] * 4


@pytest.mark.parametrize("case", ALONE)
def test_what_gains_nothing_or_needs_all_rows_has_one_thread(sample, threads_of_search, case):
    generate(sample, 3, **ALONE[case])
    assert threads_of_search == [(threading.get_ident(), SENTENCES, 3)]


@pytest.mark.parametrize("sentences", [3, 15, 16, 32])
@pytest.mark.parametrize("more", [0, 1])
def test_little_work_has_one_thread_inside(sentences, more, threads_of_search, monkeypatch):
    decoder = search_setup.make_peaked_model(SYMBOLS, 0).decoder
    weights = sum(p.numel() for p in decoder.parameters())
    monkeypatch.setattr(search_module, "WORTH_THREADS", sentences * 4 * weights + more)
    generate(search_setup.make_sample([[5, 6]] * sentences), 4, beam=4)
    found = {inside for _, _, inside in threads_of_search}
    searches = len(threads_of_search)
    assert searches == max(1, sentences // 8)
    assert found == {1 if more else 4 // searches}
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_comes_out_and_gradients_stay_out(count):
    torch.set_num_threads(4)
    weights = torch.ones(2, requires_grad=True)
    shares = [slice(first, None, count) for first in range(count)]
    all_begun = threading.Barrier(count, timeout=300)
    tracked = []

    def work(share):
        all_begun.wait()  # a share not begun when another fails is dropped
        tracked.append((weights * 2).requires_grad)
        if share == shares[-1]:
            raise ValueError("the last share is broken")

    with torch.no_grad(), pytest.raises(ValueError, match="the last share"):
        run_in_threads(work, shares, 4 // count)
    assert tracked == [False] * count
    assert torch.get_num_threads() == 4
    assert (weights * 2).requires_grad


def test_a_share_has_its_rows_of_what_else_a_model_takes():
    more = {"ids": torch.arange(5), "name": "de"}
    part = Sources(torch.ones(5, 2), np.arange(5), more).part(slice(1, None, 2))
    assert (part.more["ids"].tolist(), part.more["name"]) == ([1, 3], "de")
    assert len(part.tokens) == 2 and part.lengths.tolist() == [1, 3]
