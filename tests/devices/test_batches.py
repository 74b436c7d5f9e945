"""Batches on their way to a device: pinned, made ahead, copied while it computes, and large."""

from pathlib import Path

import meta
import numpy as np
import pytest
import torch
from fairseq import tasks, utils
from fairseq.tasks import FairseqTask
from fairseq_flags import training_config
from saved_tensors import collected, storages

from vaswani_plugin.kernels.fused_loss import DEVICE_CHUNK_ELEMENTS

GIB = 2**30


def task_with(data: Path) -> FairseqTask:
    """The task of translation, with the training pairs of a folder."""
    cfg = training_config("--task", "vaswani_translation", "--arch", "vaswani_debug").copy()
    cfg.task.data = str(data)
    task = tasks.setup_task(cfg.task)
    task.load_dataset("train")
    return task


def test_a_batch_is_copied_without_waiting_and_its_lengths_stay(toy_data_bin, monkeypatch):
    pairs = task_with(toy_data_bin).dataset("train")
    sample = pairs.collater([pairs[number] for number in range(5)])
    copies, plain = [], torch.Tensor.to

    def noted(tensor, *args, **options):
        copies.append(options["non_blocking"])
        return plain(tensor, *args, **options)

    monkeypatch.setattr(torch.Tensor, "to", noted)
    moved = utils.move_to_cuda(sample, device=meta.META)
    assert len(copies) == 5 and all(copies)  # id, target, and the three of the input
    assert moved["net_input"]["src_tokens"].device == moved["target"].device == meta.META
    assert isinstance(moved["known_lengths"], np.ndarray)
    assert moved["known_lengths"].tolist() == sample["net_input"]["src_lengths"].tolist()


@pytest.mark.parametrize(("name", "gib"), [("vaswani_base", 8), ("vaswani_big", 16)])
@pytest.mark.parametrize("recomputed", [False, True])
def test_the_papers_batch_fits_one_gpu(name, gib, recomputed):
    """25,000 source and 25,000 target tokens in bfloat16: what is kept, and the largest tensor."""
    family, row = meta.ROWS[name]
    task = meta.make_meta_task(family)
    model = meta.make_meta_model(family, row, task, checkpoint_activations=recomputed).bfloat16()
    sample = meta.make_meta_sample(model, 250, 100, 100, known_lengths=[100] * 250)
    weights = storages(list(model.parameters()))
    with meta.largest_tensor() as largest, collected() as kept:
        meta.make_criterion(task)(model, sample)
    total = sum({n: size for n, size in storages(kept).items() if n not in weights}.values()) / GIB
    assert (gib / 4 < total < gib) if not recomputed else (0 < total < gib / 8)
    assert largest() <= 4 * DEVICE_CHUNK_ELEMENTS // 2
