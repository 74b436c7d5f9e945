"""toy_trees.py: clean trees, none twice, the same from the same seed, with a grammar to learn."""

import toy_trees

from vaswani_plugin.text.linearization import MAX_OPENINGS, linearize, restore
from vaswani_plugin.text.tree_cleaning import clean
from vaswani_plugin.text.trees import Leaf, Open, parse_tree

COUNT = 800


def test_trees_are_clean_and_distinct():
    lines = list(toy_trees.distinct_trees(COUNT, 1))
    assert len(set(lines)) == COUNT
    for line in lines:
        tree = parse_tree(line)
        assert clean(tree) == tree
        words, symbols = linearize(tree, keep_tags=True)
        assert restore(symbols, words) == tree
        assert "(" * MAX_OPENINGS not in "".join(symbol[0] for symbol in symbols)


def test_a_seed_decides():
    assert list(toy_trees.distinct_trees(50, 3)) == list(toy_trees.distinct_trees(50, 3))
    assert list(toy_trees.distinct_trees(50, 3)) != list(toy_trees.distinct_trees(50, 4))


def test_prepositions_say_what_their_phrase_belongs_to():
    seen = set()
    for line in toy_trees.distinct_trees(COUNT, 2):
        above = []
        for symbol in parse_tree(line):
            if isinstance(symbol, Open):
                above.append(symbol.label)
            elif not isinstance(symbol, Leaf):
                above.pop()
            elif symbol.tag == "IN" and above[-1] == "PP":
                is_tool = symbol.word == "with"
                assert above[-2] in (("VP", "S") if is_tool else ("NP",)), line
                seen.add((symbol.word, above[-2]))
    assert len(seen) == 5  # of, near, behind; with, of a verb and of a sentence


def test_files(tmp_path, monkeypatch):
    sizes = {"train": 20, "valid": 5, "test": 6}
    flags = [str(part) for split, size in sizes.items() for part in (f"--{split}", size)]
    monkeypatch.setattr("sys.argv", ["toy_trees.py", "--output", str(tmp_path), *flags])
    toy_trees.main()
    lines = {split: (tmp_path / f"{split}.trees").read_text().splitlines() for split in sizes}
    assert {split: len(found) for split, found in lines.items()} == sizes
    assert len({line for found in lines.values() for line in found}) == sum(sizes.values())
