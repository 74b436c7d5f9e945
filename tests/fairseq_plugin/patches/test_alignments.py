"""--replace-unk puts the aligned word of the source where the model wrote <unk>."""

from fairseq import utils
from fairseq.dataclass.configs import GenerationConfig

import vaswani_plugin

vaswani_plugin.register()


def replaced(alignment, words="a <unk> <unk>", table=None):
    return utils.replace_unk(words, "eins zwei drei", alignment, table or {}, "<unk>")


def test_pairs_of_positions():
    assert replaced([(0, 0), (2, 1), (1, 2)]) == "a drei zwei"
    assert replaced([(0, 0), (2, 1), (1, 2)], table={"drei": "three"}) == "a three zwei"


def test_rows_of_probabilities_whose_last_column_is_the_end():
    soft = [["0.5", "0.3", "0.1", "0.1"], ["0.1", "0.3", "0.2", "0.4"], ["0", "0", "0.1", "0.9"]]
    assert replaced(soft) == "a zwei drei"


def test_positions_as_before():
    assert replaced([0, 2, 1]) == "a drei zwei"


def test_a_word_without_alignment_stays():
    assert replaced([(0, 0), (2, 1)]) == "a drei <unk>"
    assert replaced([]) == "a <unk> <unk>"


def test_the_table_is_optional(tmp_path):
    const = GenerationConfig()._get_argparse_const("replace_unk")
    assert utils.load_align_dict(const) == {} and utils.load_align_dict(None) is None
    (tmp_path / "table").write_text("drei three\n", encoding="utf-8")
    assert utils.load_align_dict(str(tmp_path / "table")) == {"drei": "three"}
