"""Known-harmless warnings of a default run, each silenced by its own message.

All other warnings are shown. Lines that fairseq logs before it imports a ``--user-dir`` (one INFO
about tensorboardX) can't be silenced here.
"""

import logging
import os
import sys
import warnings

import torch

from vaswani_plugin.fairseq_plugin.patches.messages import is_fairseq_command

HYDRA_MESSAGES = (
    # fairseq still calls hydra as of version 1.0 (fairseq-fixed 0.12.3.1)
    r"hydra\.experimental\.initialize\(\) is no longer experimental",
    r"\s*The version_base parameter is not specified",
    r"hydra\.experimental\.compose\(\) is no longer experimental",
    r"In '.*': Usage of deprecated keyword in package header '# @package _group_'",
    r"\s*'.*' is validated against ConfigStore schema with the same name",
    r"\s*The strict flag in the compose API is deprecated",
)
TORCH_MESSAGES = (
    # FairseqTask.train_step (fairseq-fixed 0.12.3.1)
    (r"`torch\.cuda\.amp\.autocast\(args\.\.\.\)` is deprecated", FutureWarning),
    # the stock MultiheadAttention (fairseq-fixed 0.12.3.1)
    (r"Support for mismatched .*key_padding_mask and attn_mask is deprecated", UserWarning),
    # DistributedFairseqModel's pytorch_ddp (fairseq-fixed 0.12.3.1)
    (r"`broadcast_buffers` is deprecated", FutureWarning),
)
PIN_MEMORY = r"'pin_memory' argument is set as true but no accelerator is found"


def silence_known_warnings() -> None:
    """Every start prints ten warnings about which users can do nothing.

    ``pin_memory`` is silenced only without a GPU; with one, the warning matters.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1, with hydra 1.3 and PyTorch 2.
    """
    wanted = [(message, UserWarning) for message in HYDRA_MESSAGES] + list(TORCH_MESSAGES)
    if not torch.cuda.is_available():
        wanted.append((PIN_MEMORY, UserWarning))
    present = {(f[1].pattern, f[2]) for f in warnings.filters if f[1] is not None}
    for message, category in wanted:
        if (message, category) not in present:
            warnings.filterwarnings("ignore", message=message, category=category)


def set_log_level_to_info() -> None:
    """fairseq-generate logs every library's DEBUG lines.

    ``wav2vec2_classification`` sets the root logger to DEBUG when it is imported, before the
    commands can set it to ``$LOGLEVEL`` or INFO. Only fairseq's own commands are changed.

    Upstream: none known.
    Versions: seen in fairseq-fixed 0.12.3.1.
    """
    root = logging.getLogger()
    wanted = os.environ.get("LOGLEVEL", "INFO").upper()
    if is_fairseq_command(sys.argv[0]) and root.level == logging.DEBUG and wanted != "DEBUG":
        root.setLevel(wanted)
