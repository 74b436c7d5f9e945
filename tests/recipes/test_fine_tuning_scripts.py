"""bundle_architecture.py and compare_scores.py: flags of a trained model, and what it gained."""

import json
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from fairseq import options

import vaswani_plugin
from tests.support.scripts import ROOT, assert_one_line_error, run_script
from vaswani_plugin.fairseq_plugin import configurations
from vaswani_plugin.model.architectures import FAMILIES

sys.path.append(str(ROOT / "recipes" / "lib"))

import bundle_architecture

ARCHITECTURE = "recipes/lib/bundle_architecture.py"
COMPARE = "recipes/lib/compare_scores.py"
SIZES = {
    "d_model": 24, "d_ff": 40, "encoder_layers": 1, "decoder_layers": 3, "heads": 3, "d_k": 5,
    "d_v": None, "positions": "learned", "share_embeddings": "decoder", "attention_window": 2,
    "layer_norm_eps": 1e-05,
}  # fmt: skip


def write_bundle(folder: Path, model: dict) -> Path:
    """A folder with a checkpoint of this configuration."""
    state = {"cfg": {"model": model}, "model": {"encoder.embedding.weight": torch.zeros(5, 2)}}
    torch.save(state, folder / "model.pt")
    return folder


@pytest.mark.parametrize(
    ("arch", "changes"),
    [
        ("vaswani_tiny", SIZES),
        ("vaswani_tiny", {"attention_scale": "none"}),
        ("vaswani_parser_tiny", {"next_word": True}),
        ("vaswani_seq2seq_lstm_tiny", {"d_model": 30, "layers": 3, "no_reverse_source": True}),
        ("vaswani_attention_lstm_tiny", {"attention": "additive", "input_feeding": True}),
        ("vaswani_attention_lstm_tiny", {"attention": "none", "input_feeding": False}),
        ("vaswani_lm_one_layer_tiny", {"d_model": 24, "d_hidden": 24, "no_projections": True}),
        ("vaswani_lm_lstm_tiny", {"units": 30, "layers": 4}),
    ],
)
def test_the_flags_build_the_same_sizes_again(tmp_path, arch, changes):
    model = {"_name": arch, **changes, "dropout": 0.7}
    done = run_script(ARCHITECTURE, write_bundle(tmp_path, model))
    assert done.returncode == 0, done.stderr
    found, *words = done.stdout.split("\n")[:-1]
    assert found == arch
    vaswani_plugin.register()
    (task,) = [f.task for f in FAMILIES if arch in {row.name for row in f.rows}]
    flags = ["data", "--task", task, "--arch", arch, *words]
    args = options.parse_args_and_arch(options.get_training_parser(), flags)
    absent = {name: None if value else value for name, value in changes.items()}  # a flag: False
    assert {name: getattr(args, name, absent[name]) for name in changes} == changes
    assert getattr(args, "dropout", None) != 0.7


@pytest.mark.parametrize(
    "kind",
    [
        configurations.VaswaniTransformerConfig,
        configurations.VaswaniLanguageModelConfig,
        configurations.OneLayerConfig,
        configurations.RecurrentLanguageModelConfig,
        configurations.Seq2SeqLSTMConfig,
        configurations.AttentionLSTMConfig,
    ],
)
def test_every_size_of_a_model_is_among_the_flags(kind):
    """All but regularization, options of the machine, and what is the task's."""
    names = {f.name for f in fields(kind) if not str(f.default).startswith("${task.")}
    names = {name for name in names if not name.endswith("dropout") and not name.startswith("_")}
    assert names - {"checkpoint_activations", "compile"} <= set(bundle_architecture.SIZES)


@pytest.mark.parametrize("model", [{"_name": "transformer"}, {}])
def test_a_model_that_is_not_ours(tmp_path, model):
    done = run_script(ARCHITECTURE, write_bundle(tmp_path, model))
    assert_one_line_error(done, "model.pt holds", "only the plugin's own models")


def write_score(path: Path, score: float, kind: str = "bleu") -> Path:
    """A report of `vaswani bleu` or `vaswani lm`."""
    rows = [{"name": "unigram", "bits_per_character": 9}]
    rows.append({"name": "model", "bits_per_character": score})
    path.write_text(json.dumps({"sacrebleu": score} if kind == "bleu" else {"results": rows}))
    return path


@pytest.mark.parametrize(("kind", "measure"), [("bleu", "sacreBLEU"), ("lm", "bits a character")])
def test_what_was_gained_and_what_it_cost(tmp_path, kind, measure):
    names = {"new_before": 3.0, "new_after": 7.5, "old_before": 30.0, "old_after": 28.25}
    parts = [f"{n}={write_score(tmp_path / n, score, kind)}" for n, score in names.items()]
    output = tmp_path / "compared.json"
    done = run_script(COMPARE, *parts, "--output", output)
    assert done.stdout == (
        f"new test: 3.00 {measure} before, 7.50 after (+4.50)\n"
        f"old test: 30.00 {measure} before, 28.25 after (-1.75)\n"
    ), done.stderr
    assert json.loads(output.read_text()) == {"measure": measure, **names}
    assert run_script(COMPARE, "--show", output).stdout == done.stdout
    done = run_script(COMPARE, *parts[:2], "--output", output)
    assert done.stdout.endswith("old test: not measured; give one with --old-test\n")


def test_what_is_no_report(tmp_path):
    (tmp_path / "a").write_text('{"results": []}')
    done = run_script(COMPARE, f"new_after={tmp_path}/a", "--output", tmp_path / "c.json")
    assert_one_line_error(done, "a: no report of `vaswani bleu` or `vaswani lm`", "stage compare")
    (tmp_path / "b").write_text("{}")
    done = run_script(COMPARE, "--show", tmp_path / "b")
    assert_one_line_error(done, "b: no comparison of scores", "stage compare")
    output = tmp_path / "c.json"
    part = f"new_after={write_score(tmp_path / 'd', 1.0)}"
    assert_one_line_error(run_script(COMPARE, part, "--output", output), "c.json: no comparison")
    assert not output.exists()
