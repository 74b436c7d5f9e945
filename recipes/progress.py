"""Shows fairseq-train's JSON log as one line on stderr, and passes it on.

    fairseq-train ... --log-format json | python recipes/progress.py >train.log

On a terminal the line is rewritten, elsewhere a new one follows every minute.
"""

import json
import re
import signal
import sys
import time

from tqdm import tqdm

SETTING = re.compile(r"'max_update': (\d+)")
RECORD = re.compile(r"\| (train_inner|train|valid) \| (\{.*\})$")


def main() -> None:
    """Read standard input to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # fairseq-train ends first, and saves
    on_terminal = sys.stderr.isatty()
    bar = tqdm(
        unit=" updates",
        disable=None if on_terminal else True,
        bar_format="{desc}{n_fmt}/{total_fmt} updates, {postfix}, {remaining} left",
    )
    total, valid, shown = None, "", time.monotonic()
    for line in sys.stdin:
        sys.stdout.write(line)
        sys.stdout.flush()
        if total is None and (found := SETTING.search(line)):
            total = bar.total = int(found[1])
        if not (found := RECORD.search(line.rstrip())):
            continue
        record = json.loads(found[2])
        if found[1] == "valid":
            valid = f", validation perplexity {float(record['valid_ppl']):.2f}"
        elif found[1] == "train_inner":
            done = int(record["num_updates"])
            text = f"loss {record['loss']}, {float(record['wps']):,.0f} tokens/s{valid}"
            bar.set_postfix_str(text, refresh=False)
            bar.update(done - bar.n)
            if not on_terminal and time.monotonic() - shown > 60:
                shown = time.monotonic()
                print(f"update {done:,} of {total or 0:,}, {text}", file=sys.stderr)
    bar.close()


if __name__ == "__main__":
    main()
