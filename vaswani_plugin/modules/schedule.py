"""Eq. 3 (section 5.3): the learning-rate schedule as a function."""


def learning_rate(step: int, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """lrate = d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), times a factor.

    Args:
        step: update number, counted from 1; 0 is read as 1, for use before the first update.
        d_model: width of the model.
        warmup_steps: updates of linear growth; 0 means no warm-up.
        factor: multiplies the whole schedule; 1 is the paper.

    Returns:
        The learning rate.
    """
    step = max(step, 1)
    decay = step**-0.5
    growth = step * warmup_steps**-1.5 if warmup_steps else decay
    return factor * d_model**-0.5 * min(decay, growth)
