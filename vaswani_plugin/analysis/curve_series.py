"""The series of a training log that are drawn as curves, and their axes."""

SERIES = {
    "loss": ("loss", "loss (bits)", min),
    "ppl": ("ppl", "perplexity", min),
    "lr": ("lr", "learning rate", None),
    "wps": ("wps", "target tokens/s", max),
    "gnorm": ("gnorm", "gradient norm", None),
}
"""Name: (field of fairseq's statistics, label of its axis, which value is best)."""
AXES = {"updates": "updates", "time": "hours", "tokens": "target tokens"}
