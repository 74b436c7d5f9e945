"""The mends as a whole: safe to repeat, and nothing beyond them changes."""

import torch
from fairseq import checkpoint_utils, options
from fairseq.data import (
    Dictionary,
    LanguagePairDataset,
    data_utils,
    iterators,
    language_pair_dataset,
)
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.logging import meters
from fairseq.models import distributed_fairseq_model
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer
from torch import _weights_only_unpickler

from vaswani_plugin import compat, register, resilience
from vaswani_plugin.compat.replacing import is_defect_in_source, replace

register()

REPLACED = [
    (_weights_only_unpickler.Unpickler, "load"),
    (checkpoint_utils, "load_checkpoint_to_cpu"),
    (checkpoint_utils, "load_model_ensemble_and_task"),
    (checkpoint_utils, "torch_persistent_save"),
    (checkpoint_utils, "_torch_persistent_save"),
    (Trainer, "load_checkpoint"),
    (Trainer, "train_step"),
    (Trainer, "valid_step"),
    (Trainer, "zero_grad"),
    (PathManager, "copy"),
    (PathManager, "rename"),
    (Dictionary, "add_from_file"),
    (Dictionary, "string"),
    (data_utils, "batch_by_size"),
    (data_utils, "collate_tokens"),
    (data_utils, "np"),
    (language_pair_dataset, "collate"),
    (language_pair_dataset, "np"),
    (LanguagePairDataset, "__getitems__"),
    (FairseqTask, "get_batch_iterator"),
    (iterators.EpochBatchIterator, "state_dict"),
    (iterators.EpochBatchIterator, "load_state_dict"),
    (iterators.GroupedIterator, "__init__"),
    (iterators.BackgroundConsumer, "run"),
    (meters.StopwatchMeter, "load_state_dict"),
    (options, "parse_args_and_arch"),
    (distributed_utils, "infer_init_method"),
    (distributed_utils, "call_main"),
    (distributed_utils, "all_gather_list"),
    (distributed_utils, "_broadcast_object_slow"),
    (distributed_fairseq_model, "DistributedDataParallel"),
]


def test_mending_twice_changes_nothing():
    before = [getattr(owner, name) for owner, name in REPLACED]
    allowed = set(map(str, torch.serialization.get_safe_globals()))
    compat.mend()
    resilience.install()
    assert [getattr(owner, name) for owner, name in REPLACED] == before
    assert set(map(str, torch.serialization.get_safe_globals())) == allowed


def test_every_mend_names_its_defect_and_where_it_was_seen():
    for mend in compat.MENDS:
        assert mend.__doc__.startswith("Defect: "), mend.__name__
        assert "fairseq-fixed 0.12.3.1" in mend.__doc__ or "#" in mend.__doc__, mend.__name__


def test_a_replacement_keeps_name_signature_and_kind():
    class Owner:
        @staticmethod
        def double(number: int) -> int:
            """Twice."""
            return number + number

    original = Owner.double
    assert is_defect_in_source(original, "return number+number")
    replace(Owner, "double", lambda *args: original(*args) + 1)
    assert Owner.double(2) == Owner().double(2) == 5
    assert (Owner.double.__name__, Owner.double.__doc__) == ("double", "Twice.")
    assert not is_defect_in_source(Owner.double, "return number+number")


def test_numpy_itself_stays_as_it_is():
    import numpy as np

    assert not hasattr(np, "compat") and not hasattr(np, "int")
