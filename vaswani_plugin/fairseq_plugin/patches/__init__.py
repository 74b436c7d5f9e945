"""Patches for defects of fairseq, many of them with current Python, PyTorch and numpy.

One function patches one defect. Its docstring names the symptom, upstream's issue and the versions;
docs/reference/fairseq-patches.md is made from these docstrings. A patch does nothing if the defect
is gone, and can be called twice. The subjects:

* ``extensions``: fairseq's compiled parts, where it was installed without them;
* ``messages``: a user's mistake ends in one line, harmless warnings are silenced;
* ``flags``: values of the command line that fairseq drops or can't use;
* ``numerics``: numpy 2's removed names, half precision resumed with its float32 weights;
* ``data``: every sentence in exactly one batch, the same ones after a resume, broken files named;
* ``epochs``: resuming within an epoch, with another number of workers;
* ``checkpoints``: loading with ``weights_only`` on, clear errors, atomic saves;
* ``alignments``: pairs of positions, as --replace-unk reads them;
* ``distribution``: several workers, without GPUs and on several nodes.
"""

import logging

# When fairseq is imported, it logs that tensorboardX is missing, which nothing here uses. This
# silences the line if fairseq is imported here first (the `vaswani` command).
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

from vaswani_plugin.fairseq_plugin.patches import (
    alignments,
    checkpoints,
    data,
    distribution,
    epochs,
    extensions,
    flags,
    messages,
    numerics,
)

PATCHES = (
    extensions.provide_missing_extensions,
    extensions.count_ngrams_without_libbleu,
    messages.print_users_errors_in_one_line,
    messages.silence_known_warnings,
    messages.set_log_level_to_info,
    flags.choose_our_task,
    flags.train_in_bf16_without_xla,
    flags.refuse_overrides_that_are_no_dictionary,
    flags.translate_the_given_shard,
    flags.refuse_soft_alignments_where_they_crash,
    numerics.restore_removed_numpy_names,
    numerics.save_float32_weights_of_half_precision,
    data.concatenate_splits,
    data.know_the_given_valid_subsets,
    data.keep_last_batch,
    data.rebuild_the_same_batches,
    data.refuse_unscored_texts,
    data.count_skipped_sentences,
    epochs.resume_epoch_with_other_worker_count,
    epochs.finish_epochs_with_other_update_freq,
    epochs.restart_stopwatches_on_resume,
    checkpoints.allow_harmless_globals,
    checkpoints.shorten_messages_about_pickles,
    checkpoints.refuse_unusable_checkpoints,
    checkpoints.explain_mismatched_models,
    checkpoints.restart_failed_saves,
    checkpoints.copy_checkpoints_atomically,
    checkpoints.sync_before_rename,
    checkpoints.save_intervals_at_epoch_ends,
    checkpoints.keep_as_many_best_as_asked,
    data.name_broken_dictionaries,
    alignments.replace_unknown_words_by_pairs,
    alignments.replace_unknown_words_without_a_table,
    data.stop_batch_threads_before_exit,
    distribution.join_torchrun,
    distribution.start_workers,
    distribution.wrap_cpu_modules,
    distribution.broadcast_checkpoints,
)


def apply() -> None:
    """Apply every patch, in order. Calling it again changes nothing."""
    for patch in PATCHES:
        patch()
