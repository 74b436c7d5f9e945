"""unpack.py: members of archives in every format, and what is wrong with them."""

import gzip
import io
import subprocess
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
import unpack

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.text import archives
from vaswani_plugin.text.markup import read_segments
from vaswani_plugin.text.messages import InputError

ENGLISH = b"one\ntwo \xe2\x80\xa8 still two\r\n\xc2\x85three\nbad \xff byte\n"
GERMAN = "eins\nzwei\ndrei ä\nvier\n".encode()
SOURCE = b"""<srcset setid="t" srclang="any">
<DOC sysid="ref" docid="a.b/c" genre="news">
<hl>
<Seg id="1">Rock &amp; Roll &quot;x&quot; &#8211; AT&T &notice; &copy=1</SEG>
</hl>
<p>
<seg
 id="2">  spans
  two lines&#10;and&NewLine;more </seg><seg id=3></seg>
</p></DOC>
<doc docid='d'><seg id="1">\xc3\xa4</seg></doc>
</srcset>
"""
SEGMENTS = ['Rock & Roll "x" – AT&T &notice; &copy=1', "spans two lines and more", "", "ä"]
MEMBERS = {
    "./training/x.en": ENGLISH,
    "training/x.de": GERMAN,
    "giga.en.gz": gzip.compress(GERMAN),
    "test/src.SGM": SOURCE,
    "../../escaped.txt": b"out\n",
}


def write_tar(path: Path, members: dict[str, bytes], mode: str) -> Path:
    """Makes a tar file with a folder in it."""
    with tarfile.open(path, mode) as tar:
        folder = tarfile.TarInfo("training")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    """Makes a zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return path


@pytest.fixture(params=["a.tgz", "a.tar.gz", "a.tar", "a.zip"])
def archive(request, tmp_path) -> Path:
    """MEMBERS in an archive of each kind."""
    path = tmp_path / request.param
    if path.suffix == ".zip":
        return write_zip(path, MEMBERS)
    return write_tar(path, MEMBERS, "w" if path.suffix == ".tar" else "w:gz")


def test_members_of_every_kind_of_archive(archive, tmp_path):
    out = tmp_path / "out"
    wanted = {"test/src.SGM": "sgm", "training/x.en": "en", "giga.en.gz": "giga.gz"}
    flags = [flag for m, o in wanted.items() for flag in ("--member", m, "--output", out / o)]
    done = run_script("data-prep/unpack.py", "--archive", archive, *flags)
    assert done.returncode == 0, done.stderr
    assert f"{out / 'en'}: 4 lines of training/x.en (text)" in done.stdout
    assert (out / "en").read_bytes() == ENGLISH
    assert gzip.decompress((out / "giga.gz").read_bytes()) == GERMAN
    assert (out / "sgm").read_text("utf-8").split("\n") == [*SEGMENTS, ""]


def test_a_member_cannot_choose_where_it_is_written(archive, tmp_path):
    job = unpack.Job("../../escaped.txt", "text", str(tmp_path / "out" / "here"))
    unpack.unpack(str(archive), [job])
    assert (tmp_path / "out" / "here").read_bytes() == b"out\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([archive.name, "out"])
    assert not (tmp_path.parent.parent / "escaped.txt").exists()


def test_a_missing_member_names_the_near_ones_and_writes_nothing(archive, tmp_path):
    jobs = [unpack.Job(m, "text", f"{archive}.{m[-2:]}") for m in ("training/x.de", "x.en")]
    with pytest.raises(InputError, match=r"no member x\.en among its .*nearest: training/x\.en"):
        unpack.unpack(str(archive), jobs)
    assert [path.name for path in tmp_path.rglob("*")] == [archive.name]


def test_the_same_name_in_another_folder_is_near(tmp_path):
    archive = write_zip(tmp_path / "a.zip", {"a/folder/very/deep/down/x.en": b"1\n", "x.de": b""})
    with pytest.raises(InputError, match="nearest: a/folder/very/deep/down/x.en, x.de:"):
        unpack.unpack(str(archive), [unpack.Job("x.en", "text", str(tmp_path / "o"))])


def test_of_an_archive_without_a_near_name_the_first_five_are_shown(tmp_path):
    archive = write_zip(tmp_path / "a.zip", {letter * 20: b"" for letter in "bcdefg"})
    shown = ", ".join(letter * 20 for letter in "bcdef")
    with pytest.raises(InputError, match=f"among its 6, nearest: {shown}:"):
        unpack.unpack(str(archive), [unpack.Job("x.en", "text", str(tmp_path / "o"))])


def test_an_archive_that_was_cut_short(archive, tmp_path):
    whole = archive.read_bytes()
    long = "x" * 200
    filler = {f"{long[:90]}{i}": (long * i * 7).encode() for i in range(60)} | {"last": b"end\n"}
    if archive.suffix == ".zip":
        write_zip(archive, filler)
    else:
        write_tar(archive, filler, "w" if archive.suffix == ".tar" else "w:gz")
    assert archive.read_bytes() != whole
    whole = archive.read_bytes()
    for share in (0.3, 0.6, 0.9):
        archive.write_bytes(whole[: int(share * len(whole))])
        job = unpack.Job("last", "text", str(tmp_path / "out"))
        with pytest.raises(InputError, match="(cut short|among its [0-9]+)"):
            unpack.unpack(str(archive), [job])
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]


@pytest.mark.parametrize("name", ["a.tgz", "a.tar", "a.zip", "a.txt.gz", "a.sgm.gz"])
@pytest.mark.parametrize("content", [b"", b"no archive at all " * 100])
def test_what_is_no_archive(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    job = unpack.Job("m", unpack.format_of(name), str(tmp_path / "out"))
    if not archives.has_members(name):
        job = unpack.Job(str(tmp_path / name), job.format, job.output)
    with pytest.raises(InputError, match=f"{name}"):
        unpack.unpack(str(tmp_path / name), [job])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_damaged_data_inside_an_archive(tmp_path):
    """The folder is readable, the sum of the content is wrong."""
    content = write_zip(tmp_path / "a.zip", {"m": b"some words " * 99}).read_bytes()
    (tmp_path / "a.zip").write_bytes(content[:40] + bytes([content[40] ^ 255]) + content[41:])
    done = run_script(
        "data-prep/unpack.py", "--archive", tmp_path / "a.zip", "--member", "m",
        "--output", tmp_path / "out",
    )  # fmt: skip
    assert_one_line_error(done, "a.zip", "broken or cut short", "fetch it again")
    assert not (tmp_path / "out").exists()


def test_a_plain_file_is_its_own_member(tmp_path):
    (tmp_path / "src.sgm.gz").write_bytes(gzip.compress(SOURCE))
    done = run_script(
        "data-prep/unpack.py", "--archive", tmp_path / "src.sgm.gz", "--output", tmp_path / "o"
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "o").read_text("utf-8").split("\n") == [*SEGMENTS, ""]


def test_columns_of_one_member_to_two_outputs(tmp_path):
    content = "\ufeffGo.\tGeh.\tCC-BY\r\nHi.\tHallo,\u2028du!\tCC-BY\n".encode()
    for archive in (
        write_zip(tmp_path / "a.zip", {"deu.txt": content}),
        write_tar(tmp_path / "a.tgz", {"deu.txt": content}, "w:gz"),
    ):
        done = run_script(
            "data-prep/unpack.py", "--archive", archive,
            *("--member", "deu.txt", "--format", "column:1", "--output", tmp_path / "en"),
            *("--member", "deu.txt", "--format", "column:2", "--output", tmp_path / "de"),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "en").read_bytes() == b"Go.\nHi.\n"
        assert (tmp_path / "de").read_bytes() == "Geh.\nHallo,\u2028du!\n".encode()
        (tmp_path / "en").unlink()


def test_a_missing_column_is_named_with_its_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\tb\nc\n")
    done = run_script(
        "data-prep/unpack.py",
        *("--archive", tmp_path / "a.txt", "--format", "column:2", "--output", tmp_path / "o"),
    )
    assert_one_line_error(done, "a.txt:2: 1 columns, column 2")
    assert not (tmp_path / "o").exists()


def test_iwslt_training_text_as_fairseq_takes_it(tmp_path):
    """The reference is the pipeline of fairseq's prepare-iwslt14.sh itself."""
    text = (
        "<url>http://x/y</url>\n<keywords>a, b</keywords>\n<talkid>1</talkid>\n"
        "<title>A title: here</title>\n<description>What it is.</description>\n"
        "A sentence, 3 < 4.\nAnother\u0085 one.\n\n<url>z</url>\n<title>T</title>\nLast.\n"
    )
    path = tmp_path / "train.tags.de-en.de"
    path.write_text(text, "utf-8")
    reference = subprocess.run(
        ["bash", "-c", "grep -v '<url>' | grep -v '<talkid>' | grep -v '<keywords>' | "
         "sed -e 's/<title>//g' | sed -e 's/<\\/title>//g' | sed -e 's/<description>//g' | "
         "sed -e 's/<\\/description>//g'"],
        input=text.encode(), capture_output=True, check=True,
    )  # fmt: skip
    unpack.unpack(str(path), [unpack.Job(str(path), unpack.format_of(path.name), f"{path}.out")])
    assert Path(f"{path}.out").read_bytes() == reference.stdout


def test_iwslt_names_of_people_are_no_sentences(tmp_path):
    path = tmp_path / "train.tags.en-de.en"
    path.write_text(
        '<doc docid="1">\n<speaker>A B</speaker>\n<reviewer href="u">C</reviewer>\n'
        '<translator href="u">D</translator>\n R&amp;D \n</doc>\n'
    )
    unpack.unpack(str(path), [unpack.Job(str(path), "iwslt", f"{path}.out")])
    assert Path(f"{path}.out").read_text() == "R&D\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<doc>no segment</doc>", "no <seg> in it"),
        ("<doc>\n<seg id='1'>a\n<seg id='2'>b</seg>", "x:2: <seg> without </seg>"),
        ("<doc>\n<seg id='1'>a</seg>\n\n<seg id='2'>b", "x:4: <seg> without </seg>"),
        ("<doc>\n<seg id='1'>a</doc><doc><seg id='1'>a</seg>", "x:2: <seg> without </seg>"),
    ],
)
def test_damaged_test_sets(content, message):
    with pytest.raises(InputError, match=message):
        read_segments(content.split("\n"), "x")


def test_a_long_run_of_blanks_is_read_at_once():
    """In quadratic time, these would take minutes."""
    blanks = " " * 200_000
    found = read_segments([f"<seg id='1'>a{blanks}b{blanks}", f"{blanks}c</seg>"], "x")
    assert found[0].text == f"a{blanks}b c"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (SOURCE.replace(b'"a.b/c"', b'"c"').replace(b"'d'", b'"a.b/c"'), r"segment 1: .*'a\.b/c'"),
        (SOURCE.replace(b'id="2"', b'id="4"'), "segment 2: .*segment 2 against .*segment 4"),
        (SOURCE.replace(b'<seg id="1">\xc3\xa4</seg>', b""), "segment 4: .*against end"),
        (SOURCE.replace(b"Rock", b"Fels"), None),
    ],
)
def test_sides_of_a_test_set_must_agree(tmp_path, reference, message):
    other = b"<doc docid='o'><seg id='1'>another set</seg></doc>"
    members = {"b.sgm": other, "src.sgm": SOURCE, "a.sgm": other, "ref.sgm": reference}
    archive = str(write_tar(tmp_path / "t.tgz", members, "w:gz"))
    sets = [unpack.Job(f"{s}.sgm", "sgm", str(tmp_path / s)) for s in ("a", "b", "src", "ref")]
    if message is None:
        unpack.unpack(archive, sets, same_segments=True)
        assert (tmp_path / "ref").read_text("utf-8").startswith("Fels")
        return
    with pytest.raises(InputError, match=message):
        unpack.unpack(archive, sets, same_segments=True)
    with pytest.raises(InputError, match="3 members are sgm"):
        unpack.unpack(archive, sets[:3], same_segments=True)
    assert [path.name for path in tmp_path.iterdir()] == ["t.tgz"]


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--member", "m"), ["1 --member and 2 --output"]),
        (("--member", "m", "--member", "n", "--format", "docx"), ["--format docx", "column:N"]),
        (("--member", "m", "--member", "n", *("--format", "text") * 3), ["3 --format"]),
        (("--member", "m", "--member", "n", "--format", f"column:{9**30}"), ["--format column:4"]),
        (("--member", "m", "--member", "n", "--member", "o", "--output", "./a"), ["./a is an"]),
        (("--member", "m", "--member", "n", "--member", "o", "--output", "x.zip"), ["x.zip is an"]),
    ],
)
def test_flags_that_do_not_fit(tmp_path, flags, parts):
    outputs = ("--output", "a", "--output", "b")
    done = run_script("data-prep/unpack.py", "--archive", "x.zip", *outputs, *flags, cwd=tmp_path)
    assert_one_line_error(done, *parts)


@pytest.mark.parametrize("name", ["a.tar.bz2", "a.txt.xz", "A.TAR.ZST", "a.tbz2"])
def test_files_packed_in_other_ways_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"packed\n")
    output = ("--output", tmp_path / "out")
    done = run_script("data-prep/unpack.py", "--archive", tmp_path / name, *output)
    assert_one_line_error(done, f"{name}: only .zip and .gz are unpacked: unpack it by other means")
    archive = write_zip(tmp_path / "a.zip", {name: b"packed\n"})
    done = run_script("data-prep/unpack.py", "--archive", archive, "--member", name, *output)
    assert_one_line_error(done, f"{name}: only .zip and .gz are unpacked")
    assert not (tmp_path / "out").exists()


def test_a_large_member_is_never_in_memory(tmp_path):
    content = b"".join(b"%d words in a line of a corpus\n" % i for i in range(200_000))
    archive = write_tar(tmp_path / "a.tgz", {"m.gz": gzip.compress(content, 1)}, "w:gz")
    for format in ("text", "column:1"):
        tracemalloc.start()
        unpack.unpack(str(archive), [unpack.Job("m.gz", format, str(tmp_path / "out"))])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (tmp_path / "out").read_bytes() == content
        assert peak < 5e6 < len(content)


def test_archives_that_lie_about_themselves(tmp_path, monkeypatch):
    """Bombs, and sizes that a reader would follow for hours; a link out is no file."""
    monkeypatch.setattr("vaswani_plugin.text.expansion.ALWAYS_EXPANDED", 10_000)
    zeros = bytes(3_000_000)
    write_zip(tmp_path / "bomb.zip", {"x": zeros})
    write_zip(tmp_path / "inner.zip", {"x.gz": gzip.compress(zeros)})
    write_tar(tmp_path / "bomb.tgz", {"x": zeros}, "w:gz")
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(zeros))
    with tarfile.open(tmp_path / "link.tar", "w") as tar:
        link = tarfile.TarInfo("x")
        link.type, link.linkname = tarfile.SYMTYPE, "../../etc/passwd"
        tar.addfile(link)
    huge = tarfile.TarInfo("another")
    huge.size = 10**15
    (tmp_path / "huge.tar").write_bytes(huge.tobuf() + bytes(1024))
    for name, member, words in (
        ("bomb.zip", "x", "expands to over 200 times"),
        ("inner.zip", "x.gz", "expands to over 200 times"),
        ("bomb.tgz", "x", "claims 3000000 bytes"),
        ("bomb.gz", None, "expands to over 200 times"),
        ("link.tar", "x", "no regular file"),
        ("huge.tar", "x", "claims 1000000000000000 bytes"),
    ):
        path = str(tmp_path / name)
        job = unpack.Job(member or path, "text", str(tmp_path / "out"))
        with pytest.raises(InputError, match=f"{name}.*{words}"):
            unpack.unpack(path, [job])
        assert not (tmp_path / "out").exists()
