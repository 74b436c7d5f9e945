"""A flag of fairseq's own Transformer is refused by the name of ours."""

import pytest
from fairseq_flags import model_config, training_config

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.models._stock_flags import INSTEAD


@pytest.mark.parametrize(
    ("arch", "flags", "ours"),
    [
        ("vaswani_debug", ("--encoder-embed-dim", "16"), "--d-model"),
        ("vaswani_debug", ("--decoder-ffn-embed-dim", "16"), "--d-ff"),
        ("vaswani_debug", ("--share-all-embeddings",), "--share-embeddings all"),
        ("vaswani_debug", ("--relu-dropout=0.1",), "--activation-dropout"),
        ("vaswani_lm_debug", ("--decoder-attention-heads", "2"), "--heads"),
    ],
)
def test_the_error_names_ours(capsys, arch, flags, ours):
    task = "vaswani_language_modeling" if "lm" in arch else "vaswani_translation"
    with pytest.raises(SystemExit):
        training_config("--arch", arch, "--task", task, *flags)
    flag = flags[0].partition("=")[0]
    assert f"{flag} is of fairseq's transformer; models of this plugin have {ours}" in (
        capsys.readouterr().err
    )


def test_what_is_named_is_a_flag_of_ours():
    for ours in {name.split()[0] for name in INSTEAD.values()}:
        value = {"--positions": "learned", "--share-embeddings": "all"}.get(ours, "8")
        model_config("--arch", "vaswani_debug", "--task", "vaswani_translation", ours, value)


def test_stock_models_keep_their_flags():
    cfg = training_config("--arch", "transformer", "--encoder-embed-dim", "16")
    assert cfg.model.encoder_embed_dim == 16


def test_one_encoder_is_not_one_a_language():
    flags = ("--task", "multilingual_translation", "--lang-pairs", "a-b")
    with pytest.raises(UserError, match="such as multilingual_transformer; --arch vaswani_debug"):
        training_config("--arch", "vaswani_debug", *flags)


@pytest.mark.parametrize(
    ("arch", "task", "remedy"),
    [
        ("vaswani_lm_debug", "translation", "give --task vaswani_language_modeling, not transl"),
        ("vaswani_lm_one_layer_tiny", "vaswani_translation", "is a language model: give --task"),
        ("vaswani_lm_lstm_tiny", "vaswani_parsing", "is a language model: give --task"),
        ("vaswani_debug", "vaswani_language_modeling", "give --task vaswani_translation, not va"),
        ("vaswani_seq2seq_lstm_tiny", "language_modeling", "has an encoder: give --task"),
    ],
)
def test_a_task_for_other_models_is_refused(arch, task, remedy):
    with pytest.raises(UserError, match=f"--arch {arch} .*{remedy}"):
        training_config("--task", task, "--arch", arch)
