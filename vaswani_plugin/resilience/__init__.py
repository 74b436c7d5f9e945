"""A training that goes on after what happens to trainings: a service, where compat mends defects.

``install`` changes fairseq's training, and nothing else of it. The subjects:

* ``run``: the order of a start: lock, leftovers, data, checkpoint, whether anything is left to do;
* ``lock``: one run at a time in a save folder;
* ``manifest``: the data are those that the training began with;
* ``resuming``: the newest good checkpoint, where the last one is damaged or missing;
* ``saving``: a save that fails ends the training in one line; there is always a checkpoint before;
* ``preemption``: SIGTERM and SIGUSR1 save and leave with an exit code of their own;
* ``steps``: NaN and infinite gradients, batches that don't fit into memory;
* ``workers``: a worker that died, or was asked to leave, ends all.
"""

from functools import cache

from vaswani_plugin.resilience import preemption, resuming, run, saving, steps, workers

SERVICES = (
    resuming.go_on_from_the_newest_good_checkpoint,
    saving.report_failed_saves,
    steps.skip_nonfinite_gradients,
    steps.survive_full_memory,
    preemption.save_and_leave_when_asked,
    run.begin_runs_in_order,
    workers.end_workers_together,
)


@cache  # each call would wrap fairseq's functions once more
def install() -> None:
    """Make fairseq's training survive faults. Safe to call again."""
    for service in SERVICES:
        service()
