"""The toy corpora of data-prep/toy."""

import gzip
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "data-prep" / "toy"
TREES = "trees/train.trees"


def toy_lines(name: str, count: int | None = None, start: int = 0) -> list[str]:
    """`count` lines, from line `start` on, of a file such as "en-de/train.en"."""
    text = gzip.decompress((FOLDER / f"{name}.gz").read_bytes()).decode("utf-8")
    lines = text.removesuffix("\n").split("\n")[start:][:count]
    assert count is None or len(lines) == count, f"{name} has too few lines"
    return lines


def write_toy(folder: Path, language: str = "de", **sizes: int) -> None:
    """Write the first lines of the splits, such as train=300, as SPLIT.en and SPLIT.`language`."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in sizes.items():
        for side in ("en", language):
            lines = toy_lines(f"en-{language}/{split}.{side}", count)
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{split}.{side}").write_text(text, encoding="utf-8")
