"""The series of a training log that are drawn as curves, and their axes."""

SERIES = {
    "loss": ("loss (bits)", min),
    "ppl": ("perplexity", min),
    "lr": ("learning rate", None),
    "wps": ("target tokens/s", max),
    "gnorm": ("gradient norm", None),
}
"""By field of fairseq's statistics: label of its axis, which value is best."""
AXES = {"updates": "updates", "time": "hours", "tokens": "target tokens"}
