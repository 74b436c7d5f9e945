"""What you read is what runs: training, search and exports compute edited lines, or refuse them."""

import json
import shutil
from pathlib import Path

import pytest
from toy_bundle import write_toy_bundle
from toy_language_model import WORDS, write_bundle

from tests.conftest import PLUGIN, fairseq_environment
from tests.support import commands
from vaswani_plugin.text.settings import TextSettings

for package in ("ctranslate2", "onnx", "onnxruntime", "transformers"):
    pytest.importorskip(package, reason=f"NOT TESTED: no {package} here")

PAIRS = "ctranslate2 huggingface fairseq"
ALL = f"{PAIRS} gpt"
ADD_NORM = "self.norm(x + F.dropout(sublayer_output, self.dropout, self.training))"
EDITS = {
    "half a residual (3.1)": (ALL, "layers", "norm(x + F.", "norm(0.5 * x + F."),
    "no norm (3.1)": (ALL, "layers", ADD_NORM, ADD_NORM[9:]),
    "a second residual (3.1)": (ALL, "layers", "return " + ADD_NORM, "return x + " + ADD_NORM),
    "an encoder layer's end (3.1)": (ALL, "layers", "transformed), w", "2 * transformed), w"),
    "a decoder layer's end (3.1)": (PAIRS, "layers", "transformed), s", "2 * transformed), s"),
    "no self-attention (3.1)": (ALL, "layers", "query, mask=mask, is", "query * 0, mask=mask, is"),
    "the layers turned (3.1)": (PAIRS, "transformer", "in self.layers:", "in self.layers[::-1]:"),
    "half the scale (3.2.1)": (ALL, "attention", "= 1 / math.sqrt(d", "= 0.5 / math.sqrt(d"),
    "other scores (3.2.1)": (ALL, "attention", "(-2, -1) * scale", "(-2, -1).tanh() * scale"),
    "no softmax (3.2.1)": (ALL, "attention", "inf).softmax(dim=-1)", "inf).sigmoid()"),
    "half the values (3.2.1)": (ALL, "attention", "@ value, weights", "@ value / 2, weights"),
    "two heads turned (3.2.2)": (ALL, "attention", "(heads, -1)).t", "(heads, -1)).flip(2).t"),
    "twice the output (3.2.2)": (ALL, "attention", "self.output(m", "2 * self.output(m"),
    "a short past (3.2.3)": (ALL, "attention", "= key <= query", "= (query - key) // 4 == 0"),
    "padding is seen": (PAIRS, "attention", "tokens.ne(padding_idx)[", "tokens.ge(0)["),
    "GELU (3.3)": (ALL, "layers", "F.relu(", "F.gelu("),
    "a bias (3.3)": (ALL, "layers", "F.relu(self.w_1(x))", "F.relu(self.w_1(x) - 0.1)"),
    "embeddings as they are (3.4)": (ALL, "embedding", "self.scale * F.e", "F.e"),
    "a doubled projection (3.4)": (ALL, "embedding", "F.linear(x, s", "F.linear(2 * x, s"),
    "another period (3.5)": ("huggingface", "embedding", "10000 ** (even", "100 ** (even"),
    "half the positions (3.5)": (ALL, "embedding", "(embedded + pos", "(embedded + 0.5 * pos"),
    "every second position (3.5)": (ALL, "embedding", "- 1).clamp(min=0)", "- 1).clamp(0) // 2"),
    "dropout after the norm (5.4)": (
        *("", "layers", ADD_NORM),
        "F.dropout(self.norm(x + sublayer_output), self.dropout, self.training)",
    ),
    "no dropout of inputs (5.4)": ("", "transformer", "dropout(x, self", "dropout(x, 0 * self"),
    "less dropout of units": ("", "layers", "F.dropout(hidden, ", "F.dropout(hidden, 0.5 * "),
    "smoothing over all (5.4)": ("", "loss", "epsilon / (vocabulary - 1)", "epsilon / vocabulary"),
}
"""By name: the exports that have no counterpart of it, the file, its text and what replaces it."""
FEW = "half a residual (3.1)", "half the scale (3.2.1)", "every second position (3.5)"


def close(one: float, other: float) -> bool:
    return one == pytest.approx(other, abs=1e-4, rel=2e-6)


def wrong(result: dict, unedited: dict, refusing: str, is_dropout: bool) -> list[str]:
    """What does not compute the edited line."""
    if "error" in result:
        return [result["error"]]
    found, losses, exports = [], result["losses"], result["exports"]
    _, plain, dropped = map(close, losses, unedited["losses"])
    if dropped if is_dropout else plain:
        found.append("training's loss stays")
    if not close(*losses[:2]):
        found.append(f"training's loss is {losses[0]} with kernels, {losses[1]} without")
    for one, plain in result["pairs"]:
        if not (len(one) == len(plain) and all(map(close, one, plain))):
            found.append(f"log P {one} by search or engine, {plain} by the plain modules")
    refused = {to for to, error in exports.items() if "compute another model" in error}
    if refused - {"onnx"} != {*refusing.split()}:
        found.append(f"refused by {refused}, not by {refusing}")
    return found + [error for to, error in exports.items() if error and to not in refused]


def check(names, folder: Path) -> None:
    """Compare copies with one of these edits each with the package itself."""
    models = write_toy_bundle(folder, share="all"), folder / "lm"
    write_bundle(models[1], TextSettings("words"), WORDS)
    copies = {name: folder / f"copy{number}" for number, name in enumerate(("", *names))}
    for name, copy in copies.items():
        shutil.copytree(PLUGIN, copy / "vaswani_plugin")
        if name:
            _, file, old, new = EDITS[name]
            path = copy / "vaswani_plugin" / "modules" / f"{file}.py"
            before, after = path.read_text().split(old)  # it stands there once
            path.write_text(before + new + after)
    program = [commands.REPO / "tests/support/edited.py", *models, *copies.values()]
    assert commands.run_python(*program, env=fairseq_environment()).returncode == 0
    results = {name: json.loads((f / "result.json").read_text()) for name, f in copies.items()}
    unedited = results.pop("")
    assert "error" not in unedited, unedited["error"]
    assert not any(unedited["exports"].values()), unedited["exports"]
    found = [
        f"{name}: {line}"
        for name, result in results.items()
        for line in wrong(result, unedited, EDITS[name][0], "dropout" in name)
    ]
    assert not found, "\n".join(found)


def test_a_few_edits(tmp_path):
    check(FEW, tmp_path)


@pytest.mark.slow
def test_every_edit(tmp_path):
    check(EDITS, tmp_path)
