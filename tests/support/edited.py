"""What edited copies of the package compute: `edited.py BUNDLE LANGUAGE_MODEL FOLDER...`."""

import json
import os
import sys
import traceback
from argparse import Namespace
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import ctranslate2  # noqa: F401
import onnxruntime  # noqa: F401
import torch
from fairseq.data import Dictionary
from fairseq.models import transformer  # noqa: F401
from transformers.models.marian import modeling_marian  # noqa: F401
from transformers.models.openai import modeling_openai  # noqa: F401

SOURCES = [("the", "old"), ("seven",), ("it", "rained", "and", "the", "cat")]
PROMPTS = ["", "ba", "ko fi da"]
DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")


def losses(bundle: Path) -> list[float]:
    """Of a batch: with kernels, without them, and with kernels and dropout."""
    import vaswani_plugin

    vaswani_plugin.register()
    from vaswani_plugin.fairseq_plugin.criterion import VaswaniLabelSmoothing
    from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer

    state = torch.load(bundle / "model.pt")
    dictionary = Dictionary.load(str(bundle / "dict.en.txt"))
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    torch.manual_seed(1)
    source, target = torch.randint(4, len(dictionary), (2, 5, 12))
    source[0, :4] = target[1, 6:] = dictionary.pad()
    inputs = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": target.roll(1, 1)}
    sample, found = {"net_input": inputs, "target": target, "ntokens": 54}, []
    for kernels, dropout in (("on", 0.0), ("off", 0.0), ("on", 0.3)):
        os.environ["VASWANI_KERNELS"] = kernels
        options = state["cfg"]["model"] | dict.fromkeys(DROPOUTS, dropout)
        model = VaswaniTransformer.build_model(Namespace(**options), task).train()
        model.load_state_dict(state["model"])
        torch.manual_seed(2)
        found.append(VaswaniLabelSmoothing(task, False, 0.5, False, False)(model, sample)[0].item())
    return found


def searches(bundle: Path, text_model: Path) -> list[tuple]:
    """log P of outputs by the search with kernels, and by the modules without, which score them."""
    from vaswani_plugin.inference.language_model import LanguageModel
    from vaswani_plugin.inference.translator import Translator
    from vaswani_plugin.search.options import SearchOptions

    plain, fast = [], []
    for kernels, models in (("off", plain), ("on", fast)):
        os.environ["VASWANI_KERNELS"] = kernels
        models += [Translator.from_pretrained(bundle), LanguageModel.from_pretrained(text_model)]
    outputs = [best for best, *_ in fast[0].engine.decode(SOURCES, SearchOptions(beam=3))]
    scores = plain[0].engine.score(SOURCES, [output.tokens for output in outputs])
    pairs = [(output.token_scores, score) for output, score in zip(outputs, scores, strict=True)]
    for text in fast[1].complete(PROMPTS, beam=3, max_new_tokens=9):
        new = slice(len(text.prompt_tokens), len(text.prompt_tokens) + len(text.best.token_scores))
        pairs.append((text.best.token_scores, plain[1].score(text.text).token_scores[new]))
    return pairs


def exports(bundle: Path, text_model: Path, folder: Path) -> tuple[dict[str, str], list[tuple]]:
    """The errors by export, "" for none, and log P by the other engines and by ours."""
    from vaswani_plugin.cli.__main__ import main
    from vaswani_plugin.inference.translator import Translator

    errors, pairs = {}, []
    for to in ("onnx", "ctranslate2", "huggingface", "fairseq", "gpt"):
        output, model = folder / to, text_model if to == "gpt" else bundle
        flags = ["--to", to.replace("gpt", "huggingface"), "--model", model, "--output", output]
        flags += ["--allow-layer-norm-eps"] if to == "fairseq" else []
        with redirect_stderr(StringIO()) as error, redirect_stdout(StringIO()):
            code = main(["export", *map(str, flags)])
        errors[to] = error.getvalue() if code else ""
        assert bool(code) != output.exists()
        if to in ("onnx", "ctranslate2") and not code:
            both = [Translator.from_pretrained(path).engine for path in (output, bundle)]
            pairs += zip(*(engine.score(SOURCES, SOURCES[::-1]) for engine in both), strict=True)
    return errors, pairs


def measure(bundle: Path, text_model: Path, folder: Path) -> dict:
    """Everything, or the error."""
    try:
        trained, pairs = losses(bundle), searches(bundle, text_model)
        errors, more = exports(bundle, text_model, folder)
        return {"losses": trained, "pairs": pairs + more, "exports": errors}
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    (*models,) = map(Path, sys.argv[1:3])
    for folder in map(Path, sys.argv[3:]):
        if process := os.fork():
            os.waitpid(process, 0)
            continue
        sys.path.insert(0, str(folder))
        (folder / "result.json").write_text(json.dumps(measure(*models, folder)))
        os._exit(0)
