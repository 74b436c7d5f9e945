"""What `vaswani export` does once its flags are read: a model for fairseq or for CTranslate2."""

import argparse
import json

from vaswani_plugin.cli._importing import make_task
from vaswani_plugin.configurations import VaswaniTransformerConfig
from vaswani_plugin.inference.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from vaswani_plugin.inference.untrusted import untrusted
from vaswani_plugin.interchange.ctranslate2_export import (
    import_ctranslate2,
    transformer_spec,
    write_model,
)
from vaswani_plugin.interchange.fairseq_transformer import (
    checkpoint_of,
    our_model,
    refuse_not_finite,
    stock_model,
    updates_of,
)
from vaswani_plugin.text.corpus_io import InputError
from vaswani_plugin.text.settings import MODEL, SETTINGS, dictionary_name, read_settings


def run(args: argparse.Namespace) -> int:
    """Read, convert and write; returns 0.

    Raises:
        ValueError: flags that don't fit, a model that can't be used or that the other program
            can't express.
        OSError: a file can't be read or written.
    """
    to_fairseq = args.to == "fairseq"
    if not to_fairseq:
        import_ctranslate2()  # its absence is known at once
    checkpoint = args.model / MODEL if args.model.is_dir() else args.model
    state = load_checkpoint(checkpoint)
    with untrusted(checkpoint):
        cfg = our_model(state)
        refuse_not_finite(state["model"])
        if to_fairseq:
            export_to_fairseq(state, cfg, args)
        else:
            export_to_ctranslate2(state, cfg, args)
    if args.format == "json":
        print(json.dumps({"output": str(args.output), "to": args.to, "model": str(checkpoint)}))
    else:
        print(f"wrote {args.output} for {args.to}, from {checkpoint}")
    return 0


def export_to_fairseq(
    state: Checkpoint, cfg: VaswaniTransformerConfig, args: argparse.Namespace
) -> None:
    """Write a checkpoint for stock fairseq; errors as `run`."""
    if args.output.is_dir():
        raise ValueError(f"--output {args.output} is a folder; name a file in it")
    if args.output.exists() and any(
        path.exists() and args.output.samefile(path) for path in (args.model, args.model / MODEL)
    ):
        raise ValueError(f"--output {args.output} is the model itself and would be lost")
    weights, options = stock_model(state["model"], cfg, args.allow_layer_norm_eps)
    task = state["cfg"]["task"]
    kept = ("data", "source_lang", "target_lang", "left_pad_source", "left_pad_target")
    exported = checkpoint_of(
        weights,
        {"_name": "transformer", "arch": "transformer", **options},
        {
            "_name": "translation",
            **{name: task[name] for name in kept if task.get(name) is not None},
            "max_source_positions": cfg.max_source_positions,
            "max_target_positions": cfg.max_target_positions,
        },
        updates_of(state),
    )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(exported, args.output)


def export_to_ctranslate2(
    state: Checkpoint, cfg: VaswaniTransformerConfig, args: argparse.Namespace
) -> None:
    """Write a CTranslate2 model, in a bundle's company where it was in one; errors as `run`."""
    task_options = dict(state["cfg"]["task"])
    files = []
    folder = args.data_bin
    if args.model.is_dir():
        if folder is not None:
            raise ValueError("--data-bin goes with a checkpoint; a bundle has its dictionaries")
        folder = args.model
        try:
            settings = read_settings(folder)
        except InputError as error:
            raise ValueError(str(error)) from error
        files = [folder / name for name in (*settings.files(), SETTINGS) if name != MODEL]
        task_options["source_lang"] = settings.source_language
        task_options["target_lang"] = settings.target_language
    elif folder is None:
        raise ValueError("give its dictionaries' folder with --data-bin, or a bundle as --model")
    languages = {name: task_options.get(name) for name in ("source_lang", "target_lang")}
    task = make_task(folder, languages)
    task.load_state_dict(state.get("task_state") or {})  # refuses other dictionaries
    source, target = task.source_dictionary.symbols, task.target_dictionary.symbols
    if not files:
        names = {task.cfg.source_lang, task.cfg.target_lang}
        files = [folder / dictionary_name(name) for name in sorted(names)]
    spec = transformer_spec(state["model"], cfg, source, target)
    write_model(spec, args.output, args.quantization, files)
