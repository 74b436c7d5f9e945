"""The README's three lines of Python, with a model that has learned its toy language."""


def test_the_three_lines_translate(trained, capsys):
    source, target = (trained.lines(f"train.{side}")[0] for side in ("src", "tgt"))
    lines = f"""
from vaswani_plugin import Translator
translator = Translator.from_pretrained({str(trained.folder)!r})
print(translator.translate({source!r}).text)
"""
    exec(lines, {})
    assert capsys.readouterr().out == f"{target}\n"


def test_it_has_learned_the_whole_corpus(trained):
    """Else the other tests of this model would compare noise."""
    from vaswani_plugin import Translator

    found = Translator.from_pretrained(trained.folder).translate(trained.lines("train.src"))
    right = sum(t.text == line for t, line in zip(found, trained.lines("train.tgt"), strict=True))
    assert right > 0.9 * len(found)
