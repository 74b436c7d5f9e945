"""Trees out of the search: always, and the best one of all where the beam is wide enough."""

import random
from argparse import Namespace

import pytest
import torch
from search_setup import EOS, UNK, as_function, make_sample
from tree_models import LABELS, TAGS, WORDS, make_dictionaries, make_parser, make_parsing_task
from trees_reference import all_trees, may_come

from vaswani_plugin.errors import UserError
from vaswani_plugin.modules.length_penalty import length_penalty
from vaswani_plugin.search import beam_search
from vaswani_plugin.search.beam_search import Step
from vaswani_plugin.search.well_formed import (
    SymbolTables,
    WellFormedTrees,
    symbols_of,
)
from vaswani_plugin.text.linearization import MAX_OPENINGS, restore
from vaswani_plugin.text.trees import BadTree

THE, DOG, BARK, S, UN, HAPPI, LY, AT = range(4, 4 + len(WORDS))
# Units of one, four, three and seven words; the last with an unknown word and a dangling @@.
SOURCES = [[DOG], [THE, DOG, BARK, S, AT], [UN, HAPPI, LY, S, THE]]
SOURCES.append([THE, UNK, UN, LY, DOG, AT, THE, HAPPI])
WORD_COUNTS = [1, 4, 3, 7]


def tables_and_names(labelled, labels=("A", "B"), tags=("x",)):
    _, symbols = make_dictionaries(labelled, labels, tags)
    names = ["" if n == EOS else symbols[n] for n in range(len(symbols))]
    return SymbolTables(symbols_of(symbols), EOS), names


def allowed(tracker, number, names, beams):
    """The set of names that may come after each hypothesis of each sentence."""
    log_p = torch.zeros(len(tracker.limits), beams, len(names))
    tracker(log_p, Step(number, torch.arange(len(tracker.limits)), None))
    return [
        [{names[n] for n in row.gt(-torch.inf).nonzero()[:, 0].tolist()} for row in rows]
        for rows in log_p
    ]


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize(
    "words, limit, max_openings", [(1, 7, 20), (2, 8, 20), (3, 7, 20), (2, 9, 2), (3, 5, 20)]
)
def test_exactly_the_well_formed_sequences_come_and_none_is_a_dead_end(
    labelled, words, limit, max_openings
):
    tables, names = tables_and_names(labelled)
    tracker = WellFormedTrees(tables, torch.tensor([words]), torch.tensor([limit]), max_openings)
    alive, found = [()], set()
    tracker.advance(torch.tensor([[EOS]]), None)
    for step in range(limit + 1):
        parents, tokens, longer = [], [], []
        for place, choices in enumerate(allowed(tracker, step, names, len(alive))[0]):
            assert choices, f"nothing may follow {alive[place]}"
            for name in sorted(choices):
                if name == "":
                    found.add(alive[place])
                    continue
                longer.append((*alive[place], name))
                parents.append(place)
                tokens.append(names.index(name))
        alive = longer
        if not alive:
            break
        tracker.advance(torch.tensor([tokens]), torch.tensor([parents]))
    expected = all_trees(words, limit, max_openings, ("A", "B"), ("x",), labelled)
    assert found == expected and len(found) > 1 and not alive


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_state_is_that_of_the_history(labelled, seed):
    """Random beams follow random parents, and sentences leave, as in a search."""
    rng = random.Random(seed)
    tables, names = tables_and_names(labelled, LABELS, TAGS)
    symbols = [name for name in names[4:]]
    words, limits = [1, 3, 6, 2], [9, 14, 40, 30]
    beams, sentences = 3, [0, 1, 2, 3]
    tracker = WellFormedTrees(tables, torch.tensor(words), torch.tensor(limits), 4)
    tracker.advance(torch.full((4, 1), EOS), None)
    histories = [[[]] for _ in words]
    seen = set()
    for step in range(max(limits) + 1):
        found = allowed(tracker, step, names, len(histories[0]))
        for sentence, own, choices in zip(sentences, histories, found, strict=True):
            for history, may in zip(own, choices, strict=True):
                expected = may_come(history, words[sentence], limits[sentence], 4, symbols)
                assert may == expected, history
                seen.add(frozenset(expected))
        tokens, parents, longer = [], [], []
        for own, choices in zip(histories, found, strict=True):
            # The end is no symbol: one that has ended goes on as another one does.
            open_ones = [n for n, may in enumerate(choices) if may != {""}]
            picked = [rng.choice(open_ones) for _ in range(beams)] if open_ones else []
            added = [rng.choice(sorted(choices[parent])) for parent in picked]
            parents.append(picked)
            tokens.append([names.index(name) for name in added])
            longer.append([[*own[p], name] for p, name in zip(picked, added, strict=True)])
        stay = [n for n, own in enumerate(longer) if own]
        if not stay:
            break
        tracker.keep(torch.tensor(stay))
        sentences = [sentences[n] for n in stay]
        histories = [longer[n] for n in stay]
        tracker.advance(
            torch.tensor([tokens[n] for n in stay]), torch.tensor([parents[n] for n in stay])
        )
    assert len(seen) > 5 and step > 10


def test_a_wide_beam_finds_the_best_tree_of_all():
    """Against every well-formed sequence, scored by full forward passes of two models."""
    labels, tags = ("A", "B"), ("x",)
    words, symbols = make_dictionaries(True, labels, tags, rows=700)
    task = make_parsing_task(words, symbols)
    ensemble = [make_parser(words, symbols, seed) for seed in (1, 2)]
    source = [DOG, BARK, S]  # two words, four tokens with the end
    args = Namespace(beam=600, lenpen=0.3, max_len_a=1.0, max_len_b=4)
    sample = make_sample([source])
    best = task.build_generator(ensemble, args).generate(ensemble, sample)[0][0]
    log_p = as_function(ensemble, source)
    scores = {}
    for tree in all_trees(2, 8, MAX_OPENINGS, labels, tags, True):
        tokens = (*map(symbols.index, tree), EOS)
        total = sum(log_p(tokens[:n])[token] for n, token in enumerate(tokens))
        scores[tokens] = total / length_penalty(len(tokens), 0.3)
    assert len(scores) > 50
    tokens, score = max(scores.items(), key=lambda item: item[1])
    assert tuple(best["tokens"].tolist()) == tokens
    assert best["score"].item() == pytest.approx(score, abs=1e-4)


def judged(task, results, counts=WORD_COUNTS):
    """How many hypotheses there are, and how many `restore` accepts."""
    total = trees = 0
    for hypotheses, count in zip(results, counts, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            *tokens, end = hypothesis["tokens"].tolist()
            assert end == EOS and hypothesis["score"].isfinite()
            total += 1
            try:
                restore([task.target_dictionary[n] for n in tokens], ["w"] * count)
                trees += 1
            except BadTree:
                pass
    return total, trees


MODES = [
    {"beam": 1},
    {"beam": 6},
    {"beam": 6, "diverse_beam_groups": 3},
    {"beam": 6, "sampling": True, "sampling_topk": 2, "temperature": 3.0},
]
CASES = [(mode, "paper", True, TAGS) for mode in MODES]
CASES += [(MODES[1], "fairseq", True, TAGS), (MODES[1], "paper", False, ("XX",))]


@pytest.mark.parametrize("mode, penalty, labelled, tags", CASES, ids=str)
def test_random_models_write_trees(mode, labelled, tags, penalty, monkeypatch):
    words, symbols = make_dictionaries(labelled, LABELS, tags)
    models = [make_parser(words, symbols, seed, peak=6.0) for seed in (1, 2)]
    monkeypatch.setattr(beam_search, "CHUNK", 2 * len(symbols) * 6)  # two sentences at a time
    torch.manual_seed(3)
    count = {}
    for unconstrained in (False, True):
        task = make_parsing_task(
            words, symbols, unconstrained=unconstrained, length_penalty=penalty
        )
        for ensemble in (models[:1], models):
            args = Namespace(**mode, max_len_b=24)
            generator = task.build_generator(ensemble, args)
            results = generator.generate(ensemble, make_sample(SOURCES))
            total, trees = judged(task, results)
            if not unconstrained:
                assert trees == total > 0
            count[unconstrained] = count.get(unconstrained, 0) + total - trees
    assert count[True] > 0  # these models don't write trees by themselves


def test_a_limit_that_barely_fits():
    words, symbols = make_dictionaries(True)
    model = make_parser(words, symbols, peak=6.0)
    task, most = make_parsing_task(words, symbols), max(WORD_COUNTS) + 2
    args = Namespace(beam=5, max_len_a=0.0, max_len_b=most)
    results = task.build_generator([model], args).generate([model], make_sample(SOURCES))
    total, trees = judged(task, results)
    assert trees == total > 0
    assert max(len(h["tokens"]) - 1 for hypotheses in results for h in hypotheses) == most


def test_what_has_no_tree_is_refused():
    words, symbols = make_dictionaries(True)
    model = make_parser(words, symbols)
    task = make_parsing_task(words, symbols)
    generator = task.build_generator([model], Namespace(beam=5, max_len_a=0.0, max_len_b=8))
    with pytest.raises(ValueError, match="sentence 3 of the batch has 7 words, .* 8 symbols only"):
        generator.generate([model], make_sample(SOURCES))
    with pytest.raises(ValueError, match="sentence 1 of the batch has no words"):
        generator.generate([model], make_sample([[DOG], []]))
    with pytest.raises(ValueError, match="not of linearized trees"):
        SymbolTables([None] * 4 + ["the", "dog"], EOS)


def test_options_that_leave_no_tree_are_refused():
    words, symbols = make_dictionaries(True)
    model, task = make_parser(words, symbols), make_parsing_task(words, symbols)
    generator = task.build_generator([model], Namespace(beam=4, no_repeat_ngram_size=2))
    with pytest.raises(UserError, match="no output of a sentence meets all constraints"):
        generator.generate([model], make_sample(SOURCES))
    with pytest.raises(UserError, match="--constraints: fairseq's own .*, or give --unconstrained"):
        task.build_generator([model], Namespace(beam=4, constraints="x"))


def test_labelled_and_plain_closings_in_one_dictionary():
    """Either closes; an opening symbol that nothing closes never comes."""
    names = [None, None, "</s>", None, "(A", ")", ")A", "(B", "x", "(C", ")D"]
    tables = SymbolTables([None, None, None, *names[3:]], EOS)
    tracker = WellFormedTrees(tables, torch.tensor([1]), torch.tensor([9]), 5)
    tracker.advance(torch.tensor([[EOS]]), None)
    for step, (token, parent) in enumerate([(4, 0), (7, 0), (8, 0)]):
        assert {"(A", "(B", "(C"} <= allowed(tracker, step, names, 1)[0][0]
        tracker.advance(torch.tensor([[token]]), torch.tensor([[parent]]))
    assert allowed(tracker, 3, names, 1) == [[{")"}]]
    tracker.advance(torch.tensor([[5]]), torch.tensor([[0]]))
    assert allowed(tracker, 4, names, 1) == [[{")", ")A"}]]
    without = SymbolTables([None, None, None, None, "(A", ")A", "x", "(C"], EOS)
    tracker = WellFormedTrees(without, torch.tensor([1]), torch.tensor([9]), 5)
    tracker.advance(torch.tensor([[EOS]]), None)
    assert allowed(tracker, 0, [str(n) for n in range(8)], 1) == [[{"4"}]]
