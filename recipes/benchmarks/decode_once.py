"""Decodes the first sentences of a training set with an untrained model, and prints its speed.

    decode_once.py DATA_BIN ARCH SENTENCES

The outputs are as long as the sources (beam 4, the paper's rules). The model's weights are random
with a fixed seed. Prints {"speed": sentences a second} of the search alone, without start-up.
"""

import json
import sys
import time
from argparse import Namespace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fairseq import options, tasks  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402

import vaswani_plugin  # noqa: E402


def main() -> None:
    """Command line."""
    vaswani_plugin.register()
    data, arch, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    parser = options.get_training_parser(default_task="vaswani_translation")
    flags = [data, "--task", "vaswani_translation", "--arch", arch, "--cpu"]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, flags))
    task = tasks.setup_task(cfg.task)
    task.load_dataset("train")
    torch.manual_seed(1)
    model = task.build_model(cfg.model).eval()
    dataset = task.dataset("train")
    order = sorted(range(count), key=dataset.num_tokens, reverse=True)
    batches = [order[i : i + 64] for i in range(0, count, 64)]
    samples = [dataset.collater([dataset[i] for i in batch]) for batch in batches]
    wanted = Namespace(beam=4, max_len_a=1.0, max_len_b=0, lenpen=0.6)
    generator = task.build_generator([model], wanted)
    task.inference_step(generator, [model], samples[0])  # warm-up: packs the weights
    start = time.perf_counter()
    for sample in samples:
        task.inference_step(generator, [model], sample)
    print(json.dumps({"speed": count / (time.perf_counter() - start)}))


if __name__ == "__main__":
    main()
