"""The series of a training log that are drawn as curves, and the axes that they are laid over."""

SERIES = {
    "loss": ("loss", "loss (bits)", min),
    "ppl": ("ppl", "perplexity", min),
    "lr": ("lr", "learning rate", None),
    "wps": ("wps", "target tokens/s", max),
    "gnorm": ("gnorm", "gradient norm", None),
}
"""Name: (field of fairseq's statistics, what it is called on an axis, what is best)."""
AXES = {"updates": "updates", "time": "hours", "tokens": "target tokens"}
