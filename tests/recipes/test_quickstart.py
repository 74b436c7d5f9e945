"""The quickstart from end to end at --scale tiny, each of its programs in a new process."""

from tests.support.recipes import result_of, run_recipe
from tests.support.toy_text import toy_lines
from vaswani_plugin import Translator


def test_quickstart(tmp_path):
    work = tmp_path / "quick start"
    done = run_recipe("quickstart", work, forked=False)
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
