"""The patches as a whole: repeatable, one layer deep, described, and gone with their defects."""

import inspect
import logging
import sys
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from fairseq.data import data_utils, language_pair_dataset
from fairseq.models import distributed_fairseq_model

import vaswani_plugin
from tests.conftest import PLUGIN
from vaswani_plugin.fairseq_plugin import patches, training
from vaswani_plugin.fairseq_plugin.patches import _patching, data
from vaswani_plugin.fairseq_plugin.patches._patching import PATCHED, is_affected_version, patch

vaswani_plugin.register()


def is_ours(function) -> bool:
    """Whether the plugin's code runs when it is called."""
    code = getattr(function, "__code__", None)
    return code is not None and Path(code.co_filename).is_relative_to(PLUGIN)


def functions_of_fairseq() -> dict[str, object]:
    """Every function of fairseq's modules and their classes, by its name."""
    found = {}
    modules = [m for n, m in sys.modules.items() if n.partition(".")[0].startswith("fairseq")]
    for module in modules:
        owners = [module, *(kind for kind in vars(module).values() if inspect.isclass(kind))]
        for owner in owners:
            if not getattr(owner, "__module__", module.__name__).startswith("fairseq"):
                continue
            for name, value in list(vars(owner).items()):
                function = value.__func__ if isinstance(value, staticmethod) else value
                if inspect.isfunction(function):
                    found[f"{owner.__name__}.{name}"] = function
    return found


def test_applying_twice_changes_nothing():
    replaced = [getattr(owner, name) for owner, name in PATCHED]
    others = (
        (module, name)
        for module, name in (
            (data_utils, "np"),
            (language_pair_dataset, "np"),
            (distributed_fairseq_model, "DistributedDataParallel"),
            (fairseq.trainer, "Trainer"),
            (sys, "excepthook"),
        )
    )
    others = {place: getattr(*place) for place in others}
    allowed = set(map(str, torch.serialization.get_safe_globals()))
    count = len(PATCHED)
    patches.apply()
    training.install()
    assert len(PATCHED) == count > 15
    assert [getattr(owner, name) for owner, name in PATCHED] == replaced
    assert {place: getattr(*place) for place in others} == others
    assert set(map(str, torch.serialization.get_safe_globals())) == allowed


def test_no_function_of_fairseq_is_wrapped_twice():
    ours = {name: f for name, f in functions_of_fairseq().items() if is_ours(f)}
    assert len(ours) >= len(PATCHED) - 1  # one is PyTorch's
    for name, function in ours.items():
        assert hasattr(function, "__wrapped__"), f"{name} is the plugin's, but no patch"
        assert not is_ours(function.__wrapped__), f"{name} is wrapped twice"
        assert not hasattr(function.__wrapped__, "patched_by"), name


def test_a_second_patch_of_a_function_is_refused():
    with pytest.raises(AssertionError, match="batch_by_size: patched by .*keep_last_batch"):

        @patch(data_utils, "batch_by_size")
        def another(original, *args, **kwargs):
            return original(*args, **kwargs)


@pytest.mark.parametrize("function", patches.PATCHES, ids=lambda f: f.__name__)
def test_every_patch_names_its_symptom_upstreams_issue_and_the_versions(function):
    symptom, *_, upstream, versions = inspect.getdoc(function).split("\n")
    assert symptom.endswith((".", "."))
    assert upstream.startswith("Upstream: ") and upstream.endswith(".")
    assert versions.startswith("Versions: ") and versions.endswith(".")


def test_a_replacement_keeps_name_signature_and_kind():
    class Owner:
        @staticmethod
        def double(number: int) -> int:
            """Twice."""
            return number + number

    original = Owner.double

    @patch(Owner, "double")
    def one_more(found, *args):
        assert found is original
        return found(*args) + 1

    PATCHED.pop()
    assert Owner.double(2) == Owner().double(2) == 5
    assert (Owner.double.__name__, Owner.double.__doc__) == ("double", "Twice.")
    assert inspect.signature(Owner.double) == inspect.signature(original)


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("0.12.3.1", True),
        ("0.12.2", True),
        ("1.0.0a0+5c4ae5c", True),
        ("0.12.2+5c4ae5c", True),
        ("0.13.0rc1", False),
        ("0.12.4", False),
        ("0.12.3.2", False),
    ],
)
def test_newer_versions_are_left_alone(monkeypatch, version, affected):
    monkeypatch.setattr(fairseq, "__version__", version)
    assert is_affected_version() == affected


def test_a_patch_does_nothing_where_its_defect_is_gone(monkeypatch):
    """As in released fairseq, which keeps the last batch."""
    mended = data_utils.batch_by_size

    def batch_by_size(indices, *args, **kwargs):
        return mended(indices, *args, **kwargs)

    monkeypatch.setattr(data_utils, "batch_by_size", batch_by_size)
    data.keep_last_batch()
    assert data_utils.batch_by_size is batch_by_size


def test_looking_for_a_defect_logs_nothing(caplog):
    logger = logging.getLogger("fairseq.tests")
    with caplog.at_level(logging.INFO):
        with _patching.silenced(logger):
            logger.info("looking")
        logger.info("found")
    assert [record.message for record in caplog.records] == ["found"]


def test_numpy_itself_stays_as_it_is():
    assert not hasattr(np, "compat") and not hasattr(np, "int")
