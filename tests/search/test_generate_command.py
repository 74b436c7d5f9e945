"""fairseq's commands print the same lines whether our search or fairseq's decodes."""

import pytest

KINDS = ("S-", "T-", "H-", "D-", "P-", "A-")


def parse(text: str) -> dict[str, list]:
    """Line number of each kind and sentence -> its fields; numbers as numbers."""
    found = {}
    for line in text.splitlines():
        if line.startswith(KINDS):
            name, *fields = line.split("\t")
            if name[0] in "HD":
                fields = [float(fields[0]), *fields[1:]]
            elif name[0] == "P":
                fields = [float(x) for x in fields[0].split()]
            found.setdefault(name, []).append(fields)
    return found


def test_generate_prints_what_fairseqs_search_prints(
    run_fairseq, toy_data_bin, stock_checkpoint, tmp_path
):
    """fairseq's stock model, by fairseq's task and by ours."""
    common = ("--path", stock_checkpoint, "--cpu", "--beam", 4, "--lenpen", 0.8)
    common += ("--nbest", 3, "--print-alignment", "--prefix-size", 1, "--batch-size", 7)
    common += ("--max-len-a", 1, "--max-len-b", 4, "--results-path", tmp_path)
    outputs = []
    for task in (("translation",), ("vaswani_translation", "--length-penalty", "fairseq")):
        run = run_fairseq("generate", toy_data_bin, "--task", *task, *common)
        assert run.returncode == 0, run.stderr
        outputs.append((tmp_path / "generate-test.txt").read_text(encoding="utf-8"))
    theirs, ours = map(parse, outputs)
    kinds = {name[:2] for name in theirs}
    assert kinds == set(KINDS) and len(theirs) == 60 * len(kinds)
    assert ours.keys() == theirs.keys()
    for name, lines in theirs.items():
        assert len(ours[name]) == len(lines)
        for mine, line in zip(ours[name], lines, strict=True):
            if name[0] == "P":
                assert mine == pytest.approx(line, abs=2e-4), name
            elif name[0] in "HD":
                assert mine[0] == pytest.approx(line[0], abs=1e-4) and mine[1:] == line[1:], name
            else:
                assert mine == line, name
