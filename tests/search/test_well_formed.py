"""Trees out of the search: always, and the best one of all where the beam is wide enough."""

from argparse import Namespace

import pytest
import torch
from search_setup import EOS, UNK, as_function, make_sample
from tree_models import LABELS, TAGS, WORDS, make_dictionaries, make_parser, make_parsing_task
from trees_reference import all_trees

from vaswani_plugin.errors import UserError
from vaswani_plugin.search import search
from vaswani_plugin.search.options import length_penalty
from vaswani_plugin.search.search import Step
from vaswani_plugin.search.well_formed import SymbolTables, WellFormedTrees, symbols_of
from vaswani_plugin.text.linearization import MAX_OPENINGS, restore

THE, DOG, BARK, S, UN, HAPPI, LY, AT = range(4, 4 + len(WORDS))
# Units of one, four, three and seven words; the last with an unknown word and a dangling @@.
SOURCES = [[DOG], [THE, DOG, BARK, S, AT], [UN, HAPPI, LY, S, THE]]
SOURCES.append([THE, UNK, UN, LY, DOG, AT, THE, HAPPI])
WORD_COUNTS = [1, 4, 3, 7]


def tables_and_names(labelled):
    _, symbols = make_dictionaries(labelled, ("A", "B"), ("x",))
    names = ["" if n == EOS else symbols[n] for n in range(len(symbols))]
    return SymbolTables(symbols_of(symbols), EOS), names


def allowed(tracker, number, names, beams):
    """The set of names that may come after each hypothesis of each sentence."""
    log_p = torch.zeros(len(tracker.limits), beams, len(names))
    tracker(log_p, Step(number, torch.arange(len(tracker.limits)), None, None))
    return [
        [{names[n] for n in row.gt(-torch.inf).nonzero()[:, 0].tolist()} for row in rows]
        for rows in log_p
    ]


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("max_openings", [20, 2])
def test_exactly_the_well_formed_sequences_come_and_none_is_a_dead_end(labelled, max_openings):
    """Of sentences of several lengths, which leave the batch when all their trees are found."""
    tables, names = tables_and_names(labelled)
    words, limits = [1, 2, 3, 3], [6, 8, 7, 5]
    tracker = WellFormedTrees(tables, torch.tensor(words), torch.tensor(limits), max_openings)
    tracker.advance(torch.full((4, 1), EOS), None)
    sentences, alive, found = [0, 1, 2, 3], [[()]] * 4, [set() for _ in words]
    for step in range(max(limits) + 1):
        longer = []
        choices = allowed(tracker, step, names, max(map(len, alive)))
        for sentence, histories, after in zip(sentences, alive, choices, strict=True):
            longer.append([])
            for parent, history in enumerate(histories):
                assert after[parent], f"nothing may follow {history}"
                longer[-1] += [(parent, name) for name in sorted(after[parent] - {""})]
                found[sentence] |= {history} if "" in after[parent] else set()
        stay = [row for row, beams in enumerate(longer) if beams]
        if not stay:
            break
        tracker.keep(torch.tensor(stay))
        sentences, alive, longer = ([x[row] for row in stay] for x in (sentences, alive, longer))
        width = max(map(len, longer))  # a sentence with fewer has its first ones again
        rows = [(beams * width)[:width] for beams in longer]
        tokens = [[names.index(name) for _, name in row] for row in rows]
        parents = [[parent for parent, _ in row] for row in rows]
        tracker.advance(torch.tensor(tokens), torch.tensor(parents))
        alive = [
            [(*own[parent], name) for parent, name in beams]
            for own, beams in zip(alive, longer, strict=True)
        ]
    assert not stay
    for count, limit, own in zip(words, limits, found, strict=True):
        assert own == all_trees(count, limit, max_openings, ("A", "B"), ("x",), labelled)
        assert len(own) > 1


def test_a_wide_beam_finds_the_best_tree_of_all():
    """Against every well-formed sequence, scored by full forward passes of two models."""
    labels, tags = ("A", "B"), ("x",)
    words, symbols = make_dictionaries(True, labels, tags, rows=700)
    task = make_parsing_task(words, symbols)
    ensemble = [make_parser(words, symbols, seed) for seed in (1, 2)]
    source = [DOG, BARK, S]  # two words, four tokens with the end
    args = Namespace(beam=600, lenpen=0.3, max_len_a=1.0, max_len_b=4)
    best = task.build_generator(ensemble, args).generate(ensemble, make_sample([source]))[0][0]
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
    monkeypatch.setattr(search, "CHUNK", 2 * len(symbols) * 6)  # two sentences at a time
    torch.manual_seed(3)
    task = make_parsing_task(words, symbols, length_penalty=penalty)
    for ensemble in (models[:1], models):
        generator = task.build_generator(ensemble, Namespace(**mode, max_len_b=24))
        results = generator.generate(ensemble, make_sample(SOURCES))
        for hypotheses, count in zip(results, WORD_COUNTS, strict=True):
            assert hypotheses
            for hypothesis in hypotheses:
                *tokens, end = hypothesis["tokens"].tolist()
                assert end == EOS and hypothesis["score"].isfinite()
                restore([symbols[n] for n in tokens], ["w"] * count)  # raises BadTree


def test_what_has_no_tree_is_refused():
    words, symbols = make_dictionaries(True)
    model = make_parser(words, symbols)
    task = make_parsing_task(words, symbols)
    generator = task.build_generator([model], Namespace(beam=5, max_len_a=0.0, max_len_b=8))
    with pytest.raises(ValueError, match="no output of a sentence meets all .* --max-len-b"):
        generator.generate([model], make_sample(SOURCES))
    with pytest.raises(UserError, match="not of linearized trees"):
        SymbolTables([None] * 4 + ["the", "dog"], EOS)


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
