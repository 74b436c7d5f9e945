"""A bundle's model without fairseq is the one that fairseq builds: weights, outputs, errors."""

import shutil

import pytest
import torch
from toy_bundle import POSITIONS, load_by_fairseq, write_toy_bundle

from tests.conftest import ancestors
from vaswani_plugin.export.checkpoints import save_safetensors
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.checkpoints import ForeignModel, load_checkpoint, make_model
from vaswani_plugin.inference.search_engine import SearchEngine
from vaswani_plugin.model.families import families, family_of
from vaswani_plugin.search.models import TransformerModel
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.settings import MODEL, SAFETENSORS

SMALL = ("--arch", "vaswani_debug")
VARIANTS = {
    "paper": (SMALL, "all"),
    "learned positions": ((*SMALL, "--positions", "learned", "--attention-window", "3"), "none"),
    "fairseq's": ((*SMALL, "--positions", "sinusoidal-fairseq", "--d-k", "5"), "decoder"),
    "depths": ((*SMALL, "--encoder-layers", "1", "--layer-norm-eps", "0.1", "--d-v", "7"), "none"),
    "another row": (("--arch", "vaswani_tiny", "--d-ff", "48"), "none"),
}
A_LANGUAGE_MODEL = "holds a language model, and a translation model is needed here: a language m"
ASKS_FOR_MORE = "its configuration asks for more weights of shape ("


@pytest.fixture
def changed(toy_bundle, tmp_path):
    """``changed(change)`` is a copy of the bundle; `change` was called with its checkpoint."""

    def change_state(change) -> Bundle:
        shutil.copytree(toy_bundle, tmp_path / "model")
        state = load_checkpoint(toy_bundle / MODEL)
        change(state)
        torch.save(state, tmp_path / "model" / MODEL)
        return Bundle.load(tmp_path / "model")

    return change_state


@pytest.mark.parametrize("name", VARIANTS)
@torch.no_grad()
def test_it_computes_what_fairseqs_model_computes(name, tmp_path):
    """From model.pt, which goes first, and from model.safetensors alone."""
    flags, share = VARIANTS[name]
    path = write_toy_bundle(tmp_path, model=flags, share=share)
    model, task = load_by_fairseq(path)
    expected = model.state_dict()
    symbols, generator = len(task.target_dictionary), torch.Generator().manual_seed(1)
    source, gold = torch.randint(4, symbols, (2, 5, 9), generator=generator)
    for row, padding in enumerate((0, 3, 1, 6, 2)):
        source[row, :padding] = 1
    previous = gold.roll(1, dims=1)
    logits = model(source, source.ne(1).sum(dim=1), previous)[0]
    theirs = logits.log_softmax(-1).gather(-1, gold[..., None])[..., 0]
    state = load_checkpoint(path / MODEL)
    (path / SAFETENSORS).write_bytes(b"")
    for _ in range(2):
        loaded = Bundle.load(path).load_model()
        assert loaded.target.symbols == task.target_dictionary.symbols
        assert loaded.source.symbols == task.source_dictionary.symbols
        found = loaded.model.state_dict()
        assert found.keys() == expected.keys() and not loaded.model.training
        assert all(torch.equal(found[key], expected[key]) for key in expected)
        stacks = loaded.model.encoder, loaded.model.decoder
        longest = tuple(stack.positions.max_positions for stack in stacks)
        assert longest == model.max_positions() == (POSITIONS, POSITIONS)
        given = source, torch.arange(5), previous, gold
        ours = SearchEngine.log_probabilities(TransformerModel(loaded.model), *given)
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
        assert len(list(loaded.model.parameters())) == len(list(model.parameters()))
        save_safetensors(state, path / SAFETENSORS)
        (path / MODEL).unlink(missing_ok=True)


def test_older_checkpoints_and_other_ways_of_decoding(changed, toy_bundle):
    def forget(state: dict) -> None:
        for name in ("attention_window", "next_word", "compile", "layer_norm_eps"):
            del state["cfg"]["model"][name]
        del state["cfg"]["model"]["max_source_positions"]
        state["cfg"]["task"] |= {"_name": "translation", "eval_bleu": True}

    assert changed(forget).load_model().sizes == Bundle.load(toy_bundle).load_model().sizes


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda state: state["cfg"]["model"].update(_name="fconv"), "'fconv'"),
        (lambda state: state["cfg"]["task"].update(_name=3), "a model of the task 3"),
        (lambda state: state.update(cfg=None), "flags of a model"),
    ],
)
def test_a_foreign_model_is_left_to_fairseq(changed, change, what):
    with pytest.raises(ForeignModel, match=f"model.pt holds {what}, which only fairseq builds: "):
        changed(change).load_model()


@pytest.mark.parametrize(
    ("section", "values", "part"),
    [
        ("task", {"_name": "language_modeling"}, A_LANGUAGE_MODEL),
        ("model", {"decoder_layers": 1}, '(Unexpected key(s) in state_dict: "decoder.layers.1.'),
        ("model", {"encoder_layers": 10_000}, ASKS_FOR_MORE),
        *(("model", {name: 10**9}, ASKS_FOR_MORE) for name in ("d_model", "d_v")),
        ("weights", {"x": torch.zeros(1).expand(10**12)}, "its weights are larger than their data"),
        (
            "model",
            {"positions": "rotary"},
            "--positions is 'rotary' in the model's configuration; ",
        ),
    ],
)
def test_what_does_not_fit_is_one_line_with_the_name(changed, section, values, part):
    bundle = changed(
        lambda state: (state["cfg"] | {"weights": state["model"]})[section].update(values)
    )
    with pytest.raises(ValueError) as caught:
        bundle.load_model()
    text = str(caught.value)
    assert part in text and str(bundle.folder) in text and "\n" not in text


def test_another_dictionary_is_refused(changed):
    bundle = changed(lambda state: None)
    path = bundle.folder / "dict.de.txt"
    first, second, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([second, first, *rest]))
    with pytest.raises(ValueError, match="the target dictionary of .*model is not the one"):
        Bundle.load(bundle.folder).load_model()


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        *((model, {}) for model in dict.fromkeys(family.model for family in families())),
        *(("vaswani_transformer", {"initial_weights": name}) for name in ("xavier", "normal")),
        ("vaswani_transformer", {"positions": "learned", "next_word": True}),
        pytest.param("vaswani_attention_lstm", {"attention": "additive"}, marks=ancestors),
    ],
)
def test_no_initial_weights_are_drawn(model, changes):
    words, ends = Dictionary(["(A", ")A", "x"]), torch.ones(7, dtype=torch.bool)
    family = family_of(model)
    sizes = family.configuration(d_model=16, **changes)
    options = {"words": (ends, ends)} if "next_word" in changes else {}
    weights = family.build(sizes, words, words, **options).state_dict()
    before = torch.get_rng_state()
    found = make_model(family, sizes, words, words, weights).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(found[name], weight) for name, weight in weights.items())
