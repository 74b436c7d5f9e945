"""What fairseq needs mended on today's Python, PyTorch and numpy.

One function a defect. Each names the defect and its upstream issue where there is one, looks first
whether the defect is still there, does nothing when it is gone, and can be called twice.
Beyond these defects, and what ``resilience`` makes of faults, importing the plugin leaves fairseq
as it is. The subjects:

* ``checkpoints``: loading with ``weights_only`` on, clear errors, saving that survives a kill;
* ``batches``: every sentence in exactly one batch, the same batches after a resume;
* ``collating``: batches made of all their sentences at once;
* ``resuming``: the place in an epoch, for other workers than before; the clock of the log;
* ``distribution``: several workers, without GPUs and on several nodes;
* ``dictionaries``: a broken one is named, a sentence is looked up as numbers;
* ``memory``: large blocks that glibc hands back and forth, holes between others, kernels of old;
* ``numerics``: numpy 2's removed names, bfloat16 without XLA;
* ``quiet``: known-harmless warnings;
* ``errors``: a user's mistake ends in one line, not in a traceback;
* ``exiting``: whatever runs beside a process stops before it ends.
"""

import logging

# Asks for a tensorboardX that nothing here uses, while fairseq is being imported; heard no more
# where this is the first to import fairseq (the `vaswani` command).
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

from vaswani_plugin.compat import (
    batches,
    checkpoints,
    collating,
    dictionaries,
    distribution,
    errors,
    exiting,
    memory,
    numerics,
    quiet,
    resuming,
)

MENDS = (
    errors.print_users_errors_in_one_line,
    quiet.silence_known_warnings,
    quiet.log_from_info_up,
    numerics.restore_removed_numpy_names,
    numerics.train_in_bf16_without_xla,
    memory.keep_freed_memory,
    memory.keep_few_kernels,
    memory.return_large_blocks_of_wide_models,
    memory.return_holes_between_updates,
    batches.keep_last_batch,
    batches.rebuild_the_same_batches,
    collating.read_all_sentences_at_once,
    collating.pad_all_sentences_at_once,
    collating.count_all_tokens_at_once,
    resuming.keep_place_with_other_workers,
    resuming.finish_epochs_of_other_groups,
    resuming.start_the_clock_of_a_resumed_training,
    checkpoints.allow_harmless_globals,
    checkpoints.refuse_pickles_in_few_words,
    checkpoints.refuse_unusable_checkpoints,
    checkpoints.explain_mismatched_models,
    checkpoints.begin_failed_saves_anew,
    checkpoints.copy_checkpoints_atomically,
    checkpoints.sync_before_rename,
    dictionaries.name_broken_dictionaries,
    dictionaries.look_up_numbers,
    exiting.stop_batch_threads_before_exit,
    distribution.join_torchrun,
    distribution.spawn_on_cpu,
    distribution.explain_fully_sharded,
    distribution.wrap_cpu_modules,
    distribution.broadcast_checkpoints,
    distribution.agree_on_checkpoints,
    distribution.gather_lists_on_cpu,
)


def mend() -> None:
    """Apply every mend, in order. Safe to call again."""
    for repair in MENDS:
        repair()
