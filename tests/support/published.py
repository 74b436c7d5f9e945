"""Made-up text in the archives of IWSLT14 and Tatoeba, under their own member names."""

import io
import tarfile
import zipfile
from pathlib import Path

from tests.support.toy_text import write_toy

Text = dict[str, list[str]]  # "train.en": lines


def toy_text(folder: Path, language: str, train: int = 300) -> Text:
    """The lines of a toy corpus, English and `language`, by split and language."""
    write_toy(folder, language, train=train, valid=30, test=30)
    return {
        path.name: path.read_text(encoding="utf-8").split("\n")[:-1] for path in folder.iterdir()
    }


def plain(lines: list[str]) -> bytes:
    """A member of plain text."""
    return "".join(line + "\n" for line in lines).encode()


def sgm(lines: list[str]) -> bytes:
    """A test set as IWSLT wraps it, in one document."""
    segments = "".join(
        f'<seg id="{n}"> {line.replace("&", "&amp;")} </seg>\n' for n, line in enumerate(lines, 1)
    )
    body = f'<doc sysid="x" docid="d" genre="news">\n<p>\n{segments}</p>\n</doc>\n'
    return f'<refset setid="t" srclang="any">\n{body}</refset>\n'.encode()


def write_tgz(path: Path, members: dict[str, bytes]) -> None:
    """A tar archive, compressed where its name says so."""
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def write_iwslt14(folder: Path, text: Text) -> None:
    """de-en.tgz: tagged training text, the test set in five parts."""
    members = {}
    for lang in ("de", "en"):
        head = ["<url>http://x</url>", "<keywords>talks, x</keywords>", "<title>A title</title>"]
        members[f"de-en/train.tags.de-en.{lang}"] = plain(head + text[f"train.{lang}"])
        sets = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
        for number, name in enumerate(sets):
            part = text[f"test.{lang}"][6 * number : 6 * number + 6]
            members[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = sgm(part)
    write_tgz(folder / "de-en.tgz", members)


def write_tatoeba(folder: Path, text: Text) -> None:
    """deu-eng.zip: one table, with some pairs that have several translations."""
    rows = [
        f"{english}\t{german}\tCC-BY 2.0 (France) Attribution: tatoeba.org #{number}"
        for split in ("train", "valid", "test")
        for number, (english, german) in enumerate(
            zip(text[f"{split}.en"], text[f"{split}.de"], strict=True)
        )
    ]
    rows += [row.replace("\t", "\tAuch: ", 1) for row in rows[::7]]
    with zipfile.ZipFile(folder / "deu-eng.zip", "w") as archive:
        archive.writestr("deu.txt", "".join(row + "\n" for row in rows))
        archive.writestr("_about.txt", "about\n")
