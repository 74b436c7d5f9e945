"""What a foreign file leads to is the file's fault, and named."""

from pathlib import Path

import pytest

from vaswani_plugin.inference.untrusted import untrusted

PATH = Path("folder/model.pt")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("cfg"), "folder/model.pt: can't be used (KeyError: 'cfg')"),
        (RuntimeError("a\n  b"), "folder/model.pt: can't be used (RuntimeError: a b)"),
        (ValueError("another dictionary"), "folder/model.pt: another dictionary"),
        (ValueError("folder/model.pt is bad"), "folder/model.pt is bad"),
    ],
)
def test_any_error_names_the_file_once(error, words):
    with pytest.raises(ValueError) as caught, untrusted(PATH):
        raise error
    assert str(caught.value).startswith(words)
    assert str(caught.value).count("folder/model.pt") == 1


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone", "x"), MemoryError()])
def test_the_machines_errors_stay_what_they_are(error):
    with pytest.raises(type(error)), untrusted(PATH):
        raise error


def test_a_traceback_is_there_for_whoever_asks(monkeypatch):
    monkeypatch.setenv("VASWANI_TRACEBACK", "1")
    with pytest.raises(KeyError), untrusted(PATH):
        raise KeyError("cfg")
