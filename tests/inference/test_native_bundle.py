"""A bundle's model without fairseq is the one that fairseq builds: weights, hypotheses, errors."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from toy_bundle import POSITIONS, load_by_fairseq, write_checkpoint, write_toy_bundle

from vaswani_plugin.fairseq_plugin.generator import BeamSearchGenerator
from vaswani_plugin.inference.bundle import Bundle, ForeignModel
from vaswani_plugin.search.models import TransformerModel
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Search
from vaswani_plugin.text.settings import MODEL

OPTIONS = SearchOptions(beam=3, max_len_b=10, print_alignment="hard")
SMALL = ("--arch", "vaswani_debug")
MODELS = {
    "paper": (SMALL, "all"),
    "learned positions": ((*SMALL, "--positions", "learned"), "none"),
    "fairseq's positions": ((*SMALL, "--positions", "sinusoidal-fairseq"), "decoder"),
    "window": ((*SMALL, "--attention-window", "3"), "all"),
    "width of heads": ((*SMALL, "--d-k", "5", "--d-v", "7"), "decoder"),
    "depths": ((*SMALL, "--encoder-layers", "1", "--decoder-layers", "3"), "none"),
    "epsilon": ((*SMALL, "--layer-norm-eps", "0.1"), "none"),
    "another row": (("--arch", "vaswani_tiny", "--d-ff", "48"), "none"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_toy_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def changed(folder, tmp_path):
    """Copies the bundle; `changed(change)` calls `change` with the checkpoint's content."""
    shutil.copytree(folder, tmp_path / "model")

    def change_state(change) -> Bundle:
        state = torch.load(folder / MODEL)
        change(state)
        torch.save(state, tmp_path / "model" / MODEL)
        return Bundle.load(tmp_path / "model")

    return change_state


def make_batch(symbols: int) -> dict:
    """Five sentences, padded on the left."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, symbols, (5, 9), generator=generator)
    for row, padding in enumerate((0, 3, 1, 6, 2)):
        tokens[row, :padding] = 1
    tokens[:, -1] = 2
    return {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(1).sum(dim=1)}}


def search_of_fairseqs(models: list, dictionary) -> list[list[dict]]:
    generator = BeamSearchGenerator(models, dictionary, OPTIONS)
    return generator.generate(models, make_batch(len(dictionary)))


def search(models: list, dictionary) -> list[list[dict]]:
    rows = make_batch(len(dictionary))["net_input"]["src_tokens"]
    return Search([TransformerModel(model) for model in models], dictionary, OPTIONS).run(rows)


def require_same(found: list[list[dict]], expected: list[list[dict]]) -> None:
    assert [len(hypotheses) for hypotheses in found] == [OPTIONS.beam] * 5
    for mine, theirs in zip(sum(found, []), sum(expected, []), strict=True):
        assert mine.keys() == theirs.keys()
        for name in ("tokens", "score", "positional_scores", "attention"):
            assert torch.equal(mine[name], theirs[name]), name
        assert mine["alignment"] == theirs["alignment"] != []


@pytest.mark.parametrize("name", MODELS)
def test_it_finds_what_fairseqs_model_finds(name, tmp_path):
    flags, share = MODELS[name]
    path = write_toy_bundle(tmp_path, model=flags, share=share)
    loaded = Bundle.load(path).load_transformer()
    model, task = load_by_fairseq(path)
    assert loaded.target.symbols == task.target_dictionary.symbols
    assert loaded.source.symbols == task.source_dictionary.symbols
    found, expected = loaded.model.state_dict(), model.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert not loaded.model.training
    stacks = loaded.model.encoder, loaded.model.decoder
    longest = tuple(stack.positions.max_positions for stack in stacks)
    assert longest == model.max_positions() == (POSITIONS, POSITIONS)
    theirs = search_of_fairseqs([model], task.target_dictionary)
    require_same(search([loaded.model], loaded.target), theirs)


def test_shared_matrices_stay_one(tmp_path):
    path = write_toy_bundle(tmp_path, share="all")
    model = Bundle.load(path).load_transformer().model
    assert model.encoder.embedding.weight is model.decoder.embedding.weight
    assert model.decoder.projection.weight is model.decoder.embedding.weight


def test_an_ensemble(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "other")
    write_checkpoint(folder, tmp_path / "other" / MODEL, seed=2)
    paths = folder, tmp_path / "other"
    loaded = [Bundle.load(path).load_transformer() for path in paths]
    theirs = [load_by_fairseq(path) for path in paths]
    expected = search_of_fairseqs([model for model, _ in theirs], theirs[0][1].target_dictionary)
    require_same(search([one.model for one in loaded], loaded[0].target), expected)
    alone = search([loaded[0].model], loaded[0].target)
    assert not torch.equal(alone[0][0]["score"], expected[0][0]["score"])


def test_fields_that_came_after_a_checkpoint(changed, folder):
    def forget(state: dict) -> None:
        for name in ("attention_window", "next_word", "compile", "layer_norm_eps"):
            del state["cfg"]["model"][name]
        del state["cfg"]["model"]["max_source_positions"]

    loaded = changed(forget).load_transformer()
    assert loaded.sizes == Bundle.load(folder).load_transformer().sizes


def test_how_it_was_decoded_in_training_does_not_matter(changed):
    def decode_otherwise(state: dict) -> None:
        state["cfg"]["task"] |= {"_name": "translation", "eval_bleu": True}

    assert changed(decode_otherwise).load_transformer().sizes.d_model == 32


@pytest.mark.parametrize("name", ["transformer", "fconv", None, ""])
def test_a_foreign_model_is_left_to_fairseq(changed, name):
    bundle = changed(lambda state: state["cfg"]["model"].update(_name=name))
    with pytest.raises(ForeignModel, match=re.escape(f"model.pt holds {name!r}, which only")):
        bundle.load_model()


def test_a_model_of_flags_is_left_to_fairseq(changed):
    with pytest.raises(ForeignModel, match="model.pt holds flags"):
        changed(lambda state: state.update(cfg=None)).load_transformer()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (
            lambda state: state["cfg"]["task"].update(_name="language_modeling"),
            "model.pt was trained by --task language_modeling: this bundle needs a translation",
        ),
        (
            lambda state: state["cfg"]["model"].update(d_model="x"),
            "model.pt: --d-model is 'x' in the model's configuration; must be a whole number",
        ),
        (
            lambda state: state["cfg"]["model"].update(encoder_layers=10**9),
            "model.pt should hold 1000000000 layers of the encoder and holds fewer",
        ),
        (
            lambda state: state["cfg"]["model"].update(decoder_layers=1),
            "model.pt does not fit this model (unexpected key decoder.layers.1.",
        ),
        (
            lambda state: state["cfg"]["model"].update(heads=3),
            "model.pt: --heads 3 does not divide --d-model 32",
        ),
        (
            lambda state: state["cfg"]["model"].update(d_ff=63),
            "model.pt does not fit this model (",
        ),
        (
            lambda state: state.update(task_state=3),
            "model.pt: can't be used (AttributeError: ",
        ),
    ],
)
def test_what_does_not_fit_is_one_line_with_the_name(changed, change, part):
    with pytest.raises(ValueError) as caught:
        changed(change).load_transformer()
    assert part in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("language", ["en", "de"])
def test_other_dictionaries_are_refused(folder, tmp_path, language):
    shutil.copytree(folder, tmp_path / "model")
    path = tmp_path / "model" / f"dict.{language}.txt"
    first, second, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([second, first, *rest]))
    side = "source" if language == "en" else "target"
    with pytest.raises(ValueError, match=f"the {side} dictionary of .*model is not the one"):
        Bundle.load(tmp_path / "model").load_transformer()


def test_a_longer_dictionary_without_digest_is_refused(folder, changed):
    bundle = changed(lambda state: state.update(task_state={}))
    for language in ("en", "de"):
        with open(bundle.folder / f"dict.{language}.txt", "a", encoding="utf-8") as stream:
            stream.write("one-more 1\n")
    with pytest.raises(ValueError, match="was trained with a dictionary of 67 entries, .* has 68"):
        bundle.load_transformer()


def test_missing_and_truncated_files_are_named(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    path = tmp_path / "model" / MODEL
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=re.escape(f"{path}: truncated")):
        Bundle.load(tmp_path / "model").load_transformer()
    path.unlink()
    with pytest.raises((ValueError, OSError), match="model.pt"):
        Bundle.load(tmp_path / "model").load_transformer()
