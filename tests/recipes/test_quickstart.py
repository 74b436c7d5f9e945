"""The quickstart from end to end at --scale tiny, and fine-tuning of own text."""

from tests.support.recipes import own, result_of, run_recipe
from tests.support.toy_text import toy_lines
from vaswani_plugin import Translator


def test_quickstart(tmp_path):
    work = tmp_path / "quick start"
    done = run_recipe("quickstart", work)
    result = result_of(work)
    assert [result[key] for key in ("recipe", "arch", "updates")] == [
        "quickstart",
        "vaswani_debug",
        20,
    ]
    assert done.stdout.count("  source  ") == done.stdout.count("  reference  ") == 10
    assert "BLEU" in done.stdout and (work / "attention.png").stat().st_size > 1000
    lines = toy_lines("en-de/test.en", 10)
    assert [line in done.stdout for line in lines] == [True] * 10
    # The score is that of the bundle's own translations.
    translator = Translator.from_pretrained(work / "model")
    texts = (work / "raw" / "test.en").read_text("utf-8").split("\n")[:5]
    found = [each.text for each in translator.translate(texts, one_sentence=True)]
    assert found == (work / "test.out").read_text("utf-8").split("\n")[:5]


def test_fine_tuning_keeps_the_pieces(tmp_path):
    """The first model is of a training of a few updates, with fewer states than are averaged."""
    folder = tmp_path / "text"
    run_recipe("own_text", tmp_path / "first", *own(folder), "--", "--max-update", 3)
    model = tmp_path / "first" / "model"
    args = ("--train", folder / "train.en", folder / "train.de", "--init-from", model)
    run_recipe("own_text", tmp_path / "second", *args)
    for name in ("sentencepiece.model", "dict.en.txt"):
        assert (tmp_path / "second" / "model" / name).read_bytes() == (model / name).read_bytes()
