"""unpack.py: members of archives in every format, and what is wrong with them."""

import gzip
import io
import re
import subprocess
import tarfile
import tempfile
import tracemalloc
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.scripts import assert_one_line_error, run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.markup import (
    Job,
    format_of,
    has_members,
    read_segments,
    unpack,
)

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
    job = Job("../../escaped.txt", "text", str(tmp_path / "out" / "here"))
    unpack(str(archive), [job])
    assert (tmp_path / "out" / "here").read_bytes() == b"out\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([archive.name, "out"])
    assert not (tmp_path.parent.parent / "escaped.txt").exists()


def test_a_missing_member_is_named_and_nothing_is_written(archive, tmp_path):
    jobs = [Job(m, "text", f"{archive}.{m[-2:]}") for m in ("training/x.de", "x.en")]
    with pytest.raises(UserError, match=r"no member x\.en among its .*training/x\.en"):
        unpack(str(archive), jobs)
    assert [path.name for path in tmp_path.rglob("*")] == [archive.name]


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
        job = Job("last", "text", str(tmp_path / "out"))
        with pytest.raises(UserError, match="(cut short|among its [0-9]+)"):
            unpack(str(archive), [job])
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]


@pytest.mark.parametrize("name", ["a.tgz", "a.tar", "a.zip", "a.txt.gz", "a.sgm.gz"])
@pytest.mark.parametrize("content", [b"", b"no archive at all " * 100])
def test_what_is_no_archive(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    job = Job("m", format_of(name), str(tmp_path / "out"))
    if not has_members(name):
        job = Job(str(tmp_path / name), job.format, job.output)
    with pytest.raises(UserError, match=f"{name}"):
        unpack(str(tmp_path / name), [job])
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
    unpack(str(path), [Job(str(path), format_of(path.name), f"{path}.out")])
    assert Path(f"{path}.out").read_bytes() == reference.stdout


def test_iwslt_names_of_people_are_no_sentences(tmp_path):
    path = tmp_path / "train.tags.en-de.en"
    path.write_text(
        '<doc docid="1">\n<speaker>A B</speaker>\n<reviewer href="u">C</reviewer>\n'
        '<translator href="u">D</translator>\n R&amp;D \n</doc>\n'
    )
    unpack(str(path), [Job(str(path), "iwslt", f"{path}.out")])
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
    with pytest.raises(UserError, match=message):
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
    sets = [Job(f"{s}.sgm", "sgm", str(tmp_path / s)) for s in ("a", "b", "src", "ref")]
    if message is None:
        unpack(archive, sets, same_segments=True)
        assert (tmp_path / "ref").read_text("utf-8").startswith("Fels")
        return
    with pytest.raises(UserError, match=message):
        unpack(archive, sets, same_segments=True)
    with pytest.raises(UserError, match="3 members are sgm"):
        unpack(archive, sets[:3], same_segments=True)
    assert [path.name for path in tmp_path.iterdir()] == ["t.tgz"]


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--member", "m"), ["1 --member, 2 --output"]),
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


@pytest.mark.parametrize("name", ["a.tar.bz2", "a.txt.xz", "A.TAR.ZST"])
def test_files_packed_in_other_ways_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"packed\n")
    archive = write_zip(tmp_path / "a.zip", {name: b"packed\n"})
    for flags in (("--archive", tmp_path / name), ("--archive", archive, "--member", name)):
        done = run_script("data-prep/unpack.py", *flags, "--output", tmp_path / "out")
        assert_one_line_error(done, f"{name}: only .zip and .gz are unpacked")
    assert not (tmp_path / "out").exists()


def test_a_large_member_is_never_in_memory(tmp_path):
    content = b"".join(b"%d words in a line of a corpus\n" % i for i in range(200_000))
    archive = write_tar(tmp_path / "a.tgz", {"m.gz": gzip.compress(content, 1)}, "w:gz")
    for format in ("text", "column:1"):
        tracemalloc.start()
        unpack(str(archive), [Job("m.gz", format, str(tmp_path / "out"))])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (tmp_path / "out").read_bytes() == content
        assert peak < 5e6 < len(content)


def test_bombs_are_refused(tmp_path):
    zeros = bytes(70 << 20)
    write_zip(tmp_path / "a.zip", {"x": zeros, "x.gz": gzip.compress(zeros, 1)})
    write_tar(tmp_path / "a.tgz", {"x": zeros}, "w:gz")
    for name, member in (("a.zip", "x"), ("a.zip", "x.gz"), ("a.tgz", "x")):
        with pytest.raises(UserError, match=f"{name}.*expands to over 200 times"):
            unpack(str(tmp_path / name), [Job(member, "text", str(tmp_path / "out"))])
        assert not (tmp_path / "out").exists()


def test_a_link_in_an_archive_is_no_file(tmp_path):
    with tarfile.open(tmp_path / "link.tar", "w") as tar:
        link = tarfile.TarInfo("x")
        link.type, link.linkname = tarfile.SYMTYPE, "../../etc/passwd"
        tar.addfile(link)
    with pytest.raises(UserError, match="link.tar.*no regular file|link.tar: broken"):
        unpack(str(tmp_path / "link.tar"), [Job("x", "text", str(tmp_path / "out"))])
    assert not (tmp_path / "out").exists()


def test_carriage_returns_inside_lines_become_blanks(tmp_path):
    """Corpora have some; every reader of lines refuses them."""
    (tmp_path / "a.txt").write_bytes(b"one\rtwo\tx\ry\r\nthree\tz\r\r\nlast\tv\r")
    found = {}
    for format in ("text", "column:2"):
        unpack(str(tmp_path / "a.txt"), [Job(str(tmp_path / "a.txt"), format, f"{tmp_path}/o")])
        found[format] = (tmp_path / "o").read_bytes()
    assert found["text"].replace(b"\r", b"") == b"one two\tx y\nthree\tz\nlast\tv\n"
    assert found["column:2"] == b"x y\nz\nv\n"


WMT21 = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="newstest2021.en-de">
 <doc origlang="en" id="d1">
  <src lang="en"><p><seg id="1">Hello <ref>.</seg><seg id="2">Two &amp; two</seg></p></src>
  <ref lang="de" translator="A"><p><seg id="1">Hallo.</seg><seg id="2">Zwei</seg></p></ref>
  <ref lang="de" translator="C"><p><seg id="1">Guten Tag.</seg><seg id="2">2</seg></p></ref>
  <hyp lang="de" system="X"><p><seg id="1">Hi.</seg><seg id="2">zwo</seg></p></hyp>
 </doc>
 <doc origlang="en" id="d2">
  <src lang="en"><seg id="1">End</seg></src><ref translator="A"><seg id="1">Ende</seg></ref>
 </doc>
</dataset>
"""


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("src", ["Hello <ref>.", "Two & two", "End"]),
        ("ref:A", ["Hallo.", "Zwei", "Ende"]),
        ("ref:C", ["Guten Tag.", "2"]),
        ("hyp", ["Hi.", "zwo"]),
        ("", "'d1' has segment 1 twice: choose one of --set src, ref:A, ref:C, hyp:X"),
        ("ref", "'d1' has segment 1 twice: choose one of --set src, ref:A, ref:C, hyp:X"),
        ("ref:B", "no <seg> of --set ref:B .there are: src, ref:A, ref:C, hyp:X"),
    ],
)
def test_one_of_source_references_and_outputs_is_chosen(tmp_path, chosen, expected):
    path = tmp_path / "w.xml"
    path.write_text(WMT21)
    if isinstance(expected, str):
        done = run_script(
            "data-prep/unpack.py", "--archive", path, "--output", tmp_path / "o", "--set", chosen
        )
        assert done.returncode == 1 and re.search(expected, done.stderr), done.stderr
        assert not (tmp_path / "o").exists()
        return
    unpack(str(path), [Job(str(path), "sgm", f"{tmp_path}/o")], chosen=chosen)
    assert (tmp_path / "o").read_text().split("\n")[:-1] == expected


def test_the_same_segment_twice_is_an_error():
    old = '<refset><doc docid="d" sysid="{}"><seg id="1">a</seg></doc>'
    content = old.format("A") + old.format("B") + "</refset>"
    assert [s.set for s in read_segments([content], "x", "ref:B")] == ["ref:B"]
    with pytest.raises(UserError, match="'d' has segment 1 twice.*ref:A, ref:B"):
        read_segments([content], "x")
    twice = '<doc docid="d"><seg id="1">a</seg><seg id="1">b</seg></doc>'
    with pytest.raises(UserError, match="'d' has segment 1 twice$"):
        read_segments([twice], "x")
    nameless = '<doc><seg id="1">a</seg></doc>\n<doc><seg id="1">b</seg></doc>'
    assert [s.text for s in read_segments([nameless], "x")] == ["a", "b"]


# Any text and any bytes: no line goes astray.

# Half of the letters are those that other tools end lines or files at, or count in other ways.
ODD = (
    "\0\t\x0b\x0c\r\x1a\x1c\x1d\x1e\x85\xa0\xad\u200b\u2028\u2029\u3000\ufeff\U0001f600e\u0301|&<>"
)
LETTERS = st.sampled_from(ODD) | st.characters(codec="utf-8", exclude_characters="\n")
LINES = st.lists(st.text(LETTERS | st.sampled_from("ab  "), max_size=12), max_size=8)
PIECES = [b"a", b" ", b"\n", b"\r\n", b"\r", b"\0", b"\t", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff"]
PIECES += [b"\xc3", b"\xef\xbb\xbf", "ä".encode(), b"<seg id='1'>", b"</seg>", b"<url>", b"&#10;"]
BYTES = st.lists(st.sampled_from(PIECES) | st.binary(max_size=2), max_size=20).map(b"".join)


def joined(lines: list[str]) -> bytes:
    """The content of a file."""
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def unpacked(content: bytes, format: str) -> bytes | None:
    """One file through unpack, or None where it is refused; then no output is there."""
    with tempfile.TemporaryDirectory() as folder:
        path, output = str(Path(folder, "file")), Path(folder, "out")
        Path(path).write_bytes(content)
        job = Job(path, format, str(output))
        try:
            counts = unpack(path, [job])
        except UserError as error:
            assert len(str(error).split("\n")) == 1
            assert not output.exists()
            return None
        assert counts[job] == output.read_bytes().count(b"\n") > 0
        return output.read_bytes()


@given(BYTES)
@example(b"\xef\xbb\xbf")
@example(b"\xef\xbb\xbf\xef\xbb\xbfa")
@example(b"\xef\xbb")
def test_unpacked_text_is_its_bytes(content):
    expected = content.removeprefix(b"\xef\xbb\xbf")
    found = unpacked(content, "text")
    if not content:
        assert found is None
        return
    lines = expected.split(b"\n")
    lines = lines[:-1] if expected.endswith(b"\n") else lines
    assert [line.rstrip(b"\r") for line in found.split(b"\n")[:-1]] == [
        line.rstrip(b"\r").replace(b"\r", b" ") for line in lines
    ]


@given(LINES)
def test_unpacked_columns_lose_no_line(lines):
    read = [line.rstrip("\r") for line in lines]
    if read:
        read[0] = read[0].removeprefix("\ufeff")
    found = unpacked(joined(lines), "column:2")
    if not read or any("\t" not in line for line in read):
        assert found is None
    else:
        assert found == joined([line.split("\t")[1].replace("\r", " ") for line in read])


@given(st.lists(st.tuples(LINES.map(" ".join), st.sampled_from([0, 1, 2])), max_size=8))
def test_iwslt_text_loses_metadata_alone(lines):
    """Texts that begin like no tag, some of them in title tags, some metadata between."""
    wrapped = {0: "a{}", 1: "<title>a{}</title>", 2: "<keywords>{}</keywords>"}
    content = joined([wrapped[kind].format(escape(text)) for text, kind in lines])
    expected = [f"a{text}" for text, kind in lines if kind != 2]
    found = unpacked(content, "iwslt")
    if not expected:
        assert found is None
        return
    result = found.decode("utf-8").split("\n")[:-1]
    assert len(result) == len(expected)
    assert not any("\r" in line for line in result)
    for line, text in zip(result, expected, strict=True):
        assert line.split() == text.split()


TAGS = st.sampled_from(["seg", "SEG", "Seg"])


@given(st.lists(st.lists(st.tuples(LINES.map("\n".join), TAGS), max_size=4), max_size=4))
def test_test_sets_keep_every_segment_in_its_place(documents):
    """Written by another library's escaping, and read back."""
    content, expected = "<srcset>\n", []
    for name, segments in enumerate(documents):
        content += f'<DOC docid="d{name}">\n<p>'
        for number, (text, tag) in enumerate(segments, start=1):
            content += f'<{tag} id="{number}">{escape(text)}</{tag}>\n'
            expected.append((f"d{name}", str(number), text.split()))
        content += "</p>\n</DOC>\n"
    if not expected:
        with pytest.raises(UserError):
            read_segments(content.split("\n"), "x")
        return
    found = read_segments(content.split("\n"), "x")
    assert [(s.document, s.number, s.text.split()) for s in found] == expected
    assert not any("\n" in s.text or "\r" in s.text for s in found)


@given(BYTES)
def test_any_bytes_are_a_test_set_or_refused(content):
    found = unpacked(content, "sgm")
    if found is not None:
        assert found.count(b"\n") == content.count(b"<seg id='1'>")
        assert b"\r" not in found


ENTITIES = {
    "&amp;": "&",
    "&lt;seg&gt;": "<seg>",
    "&quot;": '"',
    "&ouml;": "ö",
    "&#228;": "ä",
    "&#xE4;": "ä",
    "&#x1F600;": "\U0001f600",
    "&#10;": " ",
    "&#13;&NewLine;": " ",
    "&#xD800;": "\ufffd",
    # No entities: unknown, without the semicolon, beyond all numbers.
    "&notice;": "&notice;",
    "AT&T; ": "AT&T; ",
    "&copy=1": "&copy=1",
    "& ": "& ",
    f"&#{'9' * 5000};": f"&#{'9' * 5000};",
    "&#\u0661;": "&#\u0661;",
}


@given(st.lists(st.sampled_from(sorted(ENTITIES)), max_size=6))
def test_entities_are_resolved_once_and_end_no_line(entities):
    text = "x".join(["", *entities, ""])
    expected = "x".join(["", *(ENTITIES[entity] for entity in entities), ""])
    found = read_segments([f"<seg>{text}</seg>"], "x")[0].text
    assert found == expected
