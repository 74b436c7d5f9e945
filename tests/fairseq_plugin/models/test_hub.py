"""fairseq's hub interface: a bundle or a save folder in, translations out, decoded as the paper."""

import pytest
import torch
from fairseq.hub_utils import GeneratorHubInterface
from toy_bundle import write_checkpoint, write_data, write_toy_bundle

from tests.conftest import run_module
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("hub"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A save folder with its dictionaries; nothing says how the text was prepared."""
    folder = tmp_path_factory.mktemp("saved")
    write_data(folder)
    write_checkpoint(folder, folder / "checkpoint_best.pt")
    return folder


def options_of(hub, **options):
    """What the search of `translate` is told."""
    seen, build = [], hub.task.build_generator

    def build_generator(*args, **kwargs):
        generator = build(*args, **kwargs)
        seen.append(generator.options)
        return generator

    hub.task.build_generator = build_generator
    try:
        hub.translate(["a b"], **options)
    finally:
        del hub.task.build_generator
    (found,) = seen
    return found.beam, found.lenpen, found.max_len_a, found.max_len_b


def test_a_bundle_takes_raw_text_and_gives_what_the_command_gives(bundle, tmp_path):
    hub = VaswaniTransformer.from_pretrained(bundle)
    assert isinstance(hub, GeneratorHubInterface)
    lines = ["Why are the children singing?", "It rained;", "The old doctor's pear."]
    found = hub.translate(lines)
    (tmp_path / "input").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    run = run_module("vaswani_plugin.cli", "translate", "--model", bundle, tmp_path / "input")
    assert run.returncode == 0, run.stderr
    assert found == run.stdout.split("\n")[:-1]
    assert len(set(found)) == 3 and all(found)
    assert hub.translate(lines[2]) == found[2]
    assert options_of(hub) == (2, 0.6, 1.0, 50)  # the bundle's beam


def test_a_save_folder_decodes_as_the_paper_and_options_win(saved):
    hub = VaswaniTransformer.from_pretrained(str(saved), "checkpoint_best.pt")
    assert options_of(hub) == (4, 0.6, 1.0, 50)
    assert options_of(hub, beam=3, lenpen=0.2) == (3, 0.2, 1.0, 50)
    assert options_of(hub, beam=5, lenpen=1, max_len_a=0, max_len_b=200) == (5, 1, 0, 200)


def test_encoded_sentences_give_hypotheses(saved):
    hub = VaswaniTransformer.from_pretrained(saved, "checkpoint_best.pt")
    sentence = hub.encode("the old")
    assert sentence.tolist()[-1] == hub.src_dict.eos()
    assert len(hub.generate(sentence, nbest=4)) == 4
    assert hub.generate(sentence)  # at least the best, which is all that is looked at
    best = hub.generate([sentence, sentence], beam=2, nbest=2)
    assert [len(found) for found in best] == [2, 2]
    assert torch.equal(best[0][0]["tokens"], best[1][0]["tokens"])


def test_an_ensemble_by_fairseqs_name_for_it(saved):
    write_checkpoint(saved, saved / "other.pt", seed=2)
    hub = VaswaniTransformer.from_pretrained(saved, "checkpoint_best.pt:other.pt")
    assert len(hub.models) == 2 and hub.translate("the old")
