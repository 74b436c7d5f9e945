"""Lines with their places, output that is kept after an error, and the progress bar."""

import gzip
import os
import sys
from pathlib import Path

import pytest

from vaswani_plugin.text.line_io import LocatedLines, line_progress, open_output


def test_lines_have_the_place_of_their_file(tmp_path):
    first, second = tmp_path / "a.txt", tmp_path / "b.gz"
    first.write_bytes("\ufeffone\ntwo\u2028same line\n".encode())
    second.write_bytes(gzip.compress(b"\xef\xbb\xbfthree\nfour"))
    lines = LocatedLines([str(first), str(second)])
    places = [(line, lines.place(number)) for number, line in enumerate(lines, start=1)]
    assert places == [
        ("one", f"{first}:1"),
        ("two\u2028same line", f"{first}:2"),
        ("three", f"{second}:1"),
        ("four", f"{second}:2"),
    ]


def test_output_gets_its_name_at_the_end(tmp_path):
    path = tmp_path / "out"
    with open_output(path) as write:
        write(["a", "b"])
        assert not path.exists() and (tmp_path / "out.part").read_bytes() == b"a\nb\n"
    assert path.read_bytes() == b"a\nb\n" and not (tmp_path / "out.part").exists()


def test_compressed_output(tmp_path):
    path = tmp_path / "out.gz"
    with open_output(path) as write:
        write(["a", "ö"])
        write(["b"])
    assert gzip.decompress(path.read_bytes()) == "a\nö\nb\n".encode()
    with pytest.raises(ValueError, match="the lines before it are in .*out.part.gz$"):
        with open_output(path) as write:
            write(["c"])
            raise ValueError("line 2 is bad")
    assert gzip.decompress((tmp_path / "out.part.gz").read_bytes()) == b"c\n"
    (tmp_path / "out.part.gz").unlink()
    with pytest.raises(ValueError, match="^line 1 is bad$"), open_output(path):
        raise ValueError("line 1 is bad")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.gz"]


def test_output_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    link.symlink_to(target)
    for text in ("new", "again"):
        with open_output(link) as write:
            write([text])
            assert (tmp_path / "folder" / "target.part").exists()
        assert link.is_symlink() and target.read_text() == f"{text}\n"
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["target"]


def test_output_through_a_link_to_a_pipe():
    out, into = os.pipe()
    with open_output(Path(f"/dev/fd/{into}")) as write:
        write(["a"])
    os.close(into)
    assert os.read(out, 9) == b"a\n"
    os.close(out)


def test_results_before_an_error_are_kept(tmp_path):
    path = tmp_path / "out"
    with pytest.raises(ValueError, match="^line 2 is bad; the lines before it are in .*out.part$"):
        with open_output(path) as write:
            write(["a"])
            raise ValueError("line 2 is bad")
    assert not path.exists() and (tmp_path / "out.part").read_bytes() == b"a\n"


def test_the_bar_is_hidden_unless_it_is_seen_undisturbed(monkeypatch, tmp_path):
    (tmp_path / "in").write_bytes(b"a\nb\n\xe2\x80\xa8c")
    inputs = [str(tmp_path / "in")]
    assert line_progress(inputs, None).disable
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    bar = line_progress(inputs, None)
    assert (bar.disable, bar.total) == (False, 3)
    assert line_progress(["-"], None).total is None
    packed = tmp_path / "cut.gz"
    packed.write_bytes(gzip.compress(b"a\n" * 5000)[:-20])
    assert line_progress([str(packed)], None).total is None  # its reader tells the fault
    out, into = os.pipe()
    os.write(into, b"x\ny\n")
    os.close(into)
    pipe = f"/dev/fd/{out}"
    assert line_progress([pipe], None).total is None
    assert list(LocatedLines([pipe])) == ["x", "y"]  # nothing of it was read
    os.close(out)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert line_progress(inputs, None).disable
    assert not line_progress(inputs, tmp_path / "out").disable
