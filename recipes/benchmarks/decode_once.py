"""Decodes the first sentences of a training set with an untrained model, and prints its speed.

    decode_once.py DATA_BIN ARCH SENTENCES [--batch N] [--gpu] [--idle]

The outputs are as long as the sources (beam 4, the paper's rules). The model's weights are random
with a fixed seed. Prints {"speed": sentences a second} of the search alone, without start-up.
--batch is the number of sentences in a batch; --gpu decodes on the first GPU. --idle also prints
"idle_share", the share of time in which the device computed nothing, of a second, profiled run.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fairseq import options, tasks, utils  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402
from train_once import IdleTime  # noqa: E402

import vaswani_plugin  # noqa: E402


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("arch")
    parser.add_argument("sentences", type=int)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--idle", action="store_true")
    args = parser.parse_args()

    vaswani_plugin.register()
    flags = [args.data, "--task", "vaswani_translation", "--arch", args.arch]
    training = options.get_training_parser(default_task="vaswani_translation")
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(training, flags))
    task = tasks.setup_task(cfg.task)
    task.load_dataset("train")
    device = torch.device("cuda" if args.gpu else "cpu")
    torch.manual_seed(1)
    model = task.build_model(cfg.model).eval().to(device)
    dataset = task.dataset("train")
    order = sorted(range(args.sentences), key=dataset.num_tokens, reverse=True)
    batches = [order[i : i + args.batch] for i in range(0, args.sentences, args.batch)]
    samples = [dataset.collater([dataset[i] for i in batch]) for batch in batches]
    samples = [utils.apply_to_sample(lambda x: x.to(device), sample) for sample in samples]
    wanted = argparse.Namespace(beam=4, max_len_a=1.0, max_len_b=0, lenpen=0.6)
    generator = task.build_generator([model], wanted)
    task.inference_step(generator, [model], samples[0])  # warm-up: packs the weights

    def decode() -> float:
        start = time.perf_counter()
        for sample in samples:
            task.inference_step(generator, [model], sample)
        return time.perf_counter() - start

    result = {"speed": args.sentences / decode()}
    if args.idle:
        idle = IdleTime(0)
        idle.begin(0)
        decode()
        result["idle_share"] = idle.share()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
