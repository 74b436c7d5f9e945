"""Patches for defects of fairseq, many of them with current Python, PyTorch and numpy.

One function patches one defect that a path of ours meets. Its docstring begins with the symptom and
ends with upstream's issue, if there is one; docs/reference/fairseq-patches.md is made from these
docstrings. All were seen in fairseq-fixed 0.12.3.1. Applying a patch twice changes nothing.
"""

import logging

# fairseq logs that tensorboardX is missing, which nothing here uses (in the `vaswani` command).
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

import fairseq

from vaswani_plugin.fairseq_plugin.patches import (
    checkpoints,
    command_lines,
    data,
    distribution,
    epochs,
    extensions,
    precision,
)

SEEN_IN = "0.12.3.1"

PATCHES = (
    extensions.provide_missing_extensions,
    extensions.count_ngrams_without_libbleu,
    command_lines.print_users_errors_in_one_line,
    command_lines.silence_known_warnings,
    command_lines.return_log_to_generate,
    command_lines.replace_unknown_words_of_pairs,
    command_lines.complete_command_lines,
    data.restore_removed_numpy_name,
    data.keep_last_batch,
    data.rebuild_the_same_batches,
    data.stop_batch_threads_before_exit,
    epochs.resume_epoch_with_other_batches,
    epochs.restart_stopwatches_on_resume,
    checkpoints.allow_harmless_globals,
    checkpoints.refuse_unusable_checkpoints,
    checkpoints.save_in_one_try,
    checkpoints.copy_atomically,
    checkpoints.save_shared_weights_once,
    checkpoints.keep_the_checkpoints_that_were_asked_for,
    precision.save_float32_weights_of_half_precision,
    precision.unscale_gradients_once,
    distribution.join_torchrun,
    distribution.start_workers,
    distribution.wrap_cpu_modules,
)


def apply() -> None:
    """Apply every patch, in order. Calling it again changes nothing."""
    if fairseq.__version__ != SEEN_IN:
        logging.getLogger(__name__).warning(
            f"fairseq is {fairseq.__version__}, and the plugin patches defects of {SEEN_IN}: run "
            "its tests first"
        )
    for patch in PATCHES:
        patch()
