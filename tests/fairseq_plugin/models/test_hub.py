"""fairseq's hub interface over our models: tokens in and out, decoded as the paper does."""

import pytest
from fairseq.hub_utils import GeneratorHubInterface
from toy_bundle import write_checkpoint, write_data

from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer

LANGUAGES = {"source_lang": "src", "target_lang": "tgt"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A save folder with its dictionaries and two checkpoints."""
    folder = tmp_path_factory.mktemp("saved")
    write_data(folder)
    write_checkpoint(folder, folder / "checkpoint_best.pt")
    write_checkpoint(folder, folder / "other.pt", seed=2)
    return folder


@pytest.mark.parametrize("files", ["checkpoint_best.pt", "checkpoint_best.pt:other.pt"])
def test_it_translates_as_the_paper_does(saved, files):
    hub = VaswaniTransformer.from_pretrained(str(saved), files)
    assert isinstance(hub, GeneratorHubInterface) and len(hub.models) == 1 + files.count(":")
    seen, build = [], hub.task.build_generator

    def build_generator(*args, **kwargs):
        seen.append(build(*args, **kwargs))
        return seen[-1]

    hub.task.build_generator = build_generator
    assert hub.translate(["the old"], beam=4)[0]
    options = seen[0].options
    found = options.beam, options.lenpen, options.max_len_a, options.max_len_b
    assert found == (4, 0.6, 1.0, 50)
