"""Reading the output of fairseq-generate: order, n-best, gaps, broken lines."""

from pathlib import Path

import pytest

from vaswani_plugin.metrics.segments import read_generate_output


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


LOADED = "2026 | INFO | fairseq.data.data_utils | loaded {} examples from: bin/test.en-de.en\n"
GENERATED = f"""{LOADED.format(11)}2026 | INFO | some log line
S-1\tsource one
T-1\tref one
H-1\t-0.5\thyp one
D-1\t-0.5\tdetok one
P-1\t-0.1 -0.2
H-1\t-0.9\tsecond best
D-1\t-0.9\tsecond best
S-10\tten
T-10\tref ten
H-10\t-0.5\thyp ten
D-10\t-0.5\tdetok ten
{{others}}S-0\tzero
T-0\tref zero
H-0\t-0.5\t
D-0\t-0.5\t
H-art is no hypothesis
Generate test with beam=4: BLEU4 = 1.00
"""
REST = "".join(f"T-{i}\tref {i}\nH-{i}\t-1\thyp {i}\nD-{i}\t-1\tdetok {i}\n" for i in range(2, 10))


def test_order_is_restored_by_number(tmp_path: Path) -> None:
    output = read_generate_output(write(tmp_path / "gen", GENERATED.format(others=REST)))
    middle = [str(i) for i in range(2, 10)]
    assert output.hypotheses == ["", "hyp one", *(f"hyp {i}" for i in middle), "hyp ten"]
    assert output.detokenized == ["", "detok one", *(f"detok {i}" for i in middle), "detok ten"]
    assert output.references == ["ref zero", "ref one", *(f"ref {i}" for i in middle), "ref ten"]


def test_dropped_sentences_are_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "gen", GENERATED.format(others=""))
    with pytest.raises(ValueError, match=r"no H line of sentence 2 \(8 of 11 missing\)"):
        read_generate_output(path)


ONE = "H-0\t-1\ta\nD-0\t-1\ta\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Just a text.\n", "no H lines"),
        (f"{LOADED.format(3)}{ONE}", r"no H line of sentence 1 \(2 of 3 missing\)"),
        (f"{LOADED.format(2)}{ONE}H-1\t-1\ta\nD-1\n", "no D line of sentence 1 "),
        # A list of all that are missing would fill the memory.
        (f"{LOADED.format(1)}{ONE}H-1000000000000\t-1\tb\n", "no H line of sentence 1 "),
        (f"{ONE}Generate test with beam=4: BLEU4 = 1.00\n", "how many .* give --count N, --source"),
        (f"{LOADED.format(1)}T-0\ta\n{ONE}", "cut off: it does not end with `Generate"),
        (f"{LOADED.format(2)}{ONE}{ONE.replace('0', '1')}{ONE}", "sentence 0 stands twice"),
    ],
    ids=range(7),
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_generate_output(write(tmp_path / "g", text))
