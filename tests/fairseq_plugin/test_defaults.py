"""What the log says of the paper's values, and the update's tokens beside the authors'."""

import pytest
from fairseq_flags import training_config

from vaswani_plugin.fairseq_plugin.defaults import report


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("--max-tokens", "4096", "--update-freq", "8"),
            "max-tokens 4096 x 1 device(s) x update-freq 8 = 32768 padded tokens at most, 1 of the",
        ),
        (
            ("--max-tokens", "4000", "--distributed-world-size", "2"),
            "max-tokens 4000 x 2 device(s) x update-freq 1 = 8000 padded tokens at most, 0.24 of",
        ),
        (("--adam-eps", "1e-8"), "changed: optimizer.adam_eps=1e-08"),
    ],
)
def test_the_report_of_a_training(flags, said):
    line = report(training_config("--arch", "vaswani_base", *flags))
    assert said in line
    assert "paper defaults in force: optimizer=vaswani_adam, " in line


def test_what_counts_sentences_has_no_tokens():
    flags = ("--arch", "vaswani_seq2seq_lstm_tiny", "--batch-size", "8")
    assert "an update:" not in report(training_config(*flags))
