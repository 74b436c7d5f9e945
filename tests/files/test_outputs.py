"""Output is whole or not there; results that take long are kept after an error."""

import gzip
import os
import sys
from pathlib import Path

import pytest

from vaswani_plugin.errors import UserError
from vaswani_plugin.files import outputs


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old\n")
    with pytest.raises(RuntimeError), outputs.write_atomically(target) as write:
        write("new")
        raise RuntimeError
    assert target.read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_equal_content_compresses_to_equal_bytes(tmp_path):
    tmp_path /= "a folder that is made"
    for name in ("a.gz", "b.gz"):
        with outputs.write_atomically(tmp_path / name) as write:
            write("same")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"same\n"
    (tmp_path / "plain").touch()  # it has the rights of any new file
    assert (tmp_path / "a.gz").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_pipe_or_device_is_written_to_and_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    with outputs.write_atomically(tmp_path / "fifo") as write:
        write("line")
    with outputs.open_output(tmp_path / "fifo") as write:
        write(["another"])
    assert os.read(reader, 100) == b"line\nanother\n"
    os.close(reader)
    assert (tmp_path / "fifo").is_fifo()
    outputs.check_outputs("--clean", [os.devnull, os.devnull], [])
    out, into = os.pipe()
    with outputs.open_output(Path(f"/dev/fd/{into}")) as write:
        write(["a"])
    os.close(into)
    assert os.read(out, 9) == b"a\n"
    os.close(out)


def test_the_bar_reads_no_pipe(monkeypatch, tmp_path):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    (tmp_path / "in").write_text("a\nb\n")
    os.mkfifo(tmp_path / "fifo")
    for path, total in ((tmp_path / "in", 2), (tmp_path / "fifo", None), ("-", None)):
        assert outputs.line_progress([str(path)], tmp_path / "out").total == total


def test_a_link_is_replaced_and_its_file_stays(tmp_path):
    """A bundle of anyone's may hold links to files elsewhere."""
    link, target = tmp_path / "link", tmp_path / "file"
    target.write_text("old")
    for open_file, lines in ((outputs.write_atomically, "new"), (outputs.open_output, ["new"])):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        with open_file(link) as write:
            write(lines)
        assert not link.is_symlink() and link.read_text() == "new\n"
    assert target.read_text() == "old"


@pytest.mark.parametrize(("name", "part"), [("out", "out.part"), ("out.gz", "out.gz.part")])
def test_results_are_there_at_once_and_kept_after_an_error(tmp_path, name, part):
    def content(path: Path) -> bytes:
        return gzip.decompress(path.read_bytes()) if ".gz" in path.name else path.read_bytes()

    with outputs.open_output(tmp_path / name) as write:
        write(["a", "ö"])
        assert not (tmp_path / name).exists() and (tmp_path / part).stat().st_size
    assert content(tmp_path / name) == "a\nö\n".encode()
    with pytest.raises(KeyboardInterrupt) as caught, outputs.open_output(tmp_path / name) as write:
        write(["c"])
        raise KeyboardInterrupt
    assert caught.value.__notes__ == [f"; the lines before it are in {tmp_path / part}"]
    assert content(tmp_path / part) == b"c\n" and content(tmp_path / name) == "a\nö\n".encode()
    (tmp_path / part).unlink()
    with pytest.raises(UserError, match="^line 1 is bad$"), outputs.open_output(tmp_path / name):
        raise UserError("line 1 is bad")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_only_binarized_data_is_replaced(tmp_path):
    output, link = tmp_path / "data-bin", tmp_path / "link"
    link.symlink_to(output)
    for name in ("dict.txt", "dict.en.txt"):
        with outputs.new_data_folder(link) as (folder, _):
            (folder / name).write_text("a 1\n")
        with pytest.raises(RuntimeError), outputs.new_data_folder(output) as (folder, _):
            raise RuntimeError
        assert link.is_symlink() and [path.name for path in output.iterdir()] == [name]
    assert len(list(tmp_path.iterdir())) == 2
    for held in ("model.bin", "notes.txt"):
        (output / held).write_text("")
        with pytest.raises(UserError, match=f"holds {held}"), outputs.new_data_folder(output):
            pass
        (output / held).unlink()
    (output / "codes").mkdir()
    with pytest.raises(UserError, match="holds codes"), outputs.new_data_folder(output):
        pass
    (output / "codes").rmdir()
    (output / "dict.en.txt").rename(output / "train.en-de.en.bin")  # another program's .bin
    with pytest.raises(UserError, match="holds train.en-de"), outputs.new_data_folder(output):
        pass
