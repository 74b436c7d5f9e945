"""Translation with a model: `vaswani translate`, `serve` and `attention`."""

import json
import os
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from vaswani_plugin.cli.command import (
    Count,
    Folder,
    Format,
    chosen_device,
    one_of,
    positive,
    show,
    text_lines,
    write_results,
)
from vaswani_plugin.errors import UserError
from vaswani_plugin.search.options import PAPER_DECODING

if TYPE_CHECKING:
    from vaswani_plugin.inference.runner import Translation
    from vaswani_plugin.inference.translator import Translator


def addresses(text: str) -> str:
    """Check a list of addresses and networks, separated by commas; ValueError: it is none."""
    return ",".join(str(ip_network(each.strip(), strict=False)) for each in text.split(","))


@one_of("beam", "sampling")
@one_of("top_k", "top_p")
@one_of("fp16", "bf16")
def translate(
    inputs: list[str] | None = None,
    *,
    model: Folder,
    engine: Literal["torch", "ctranslate2", "onnxruntime"] | None = None,
    output: Path | None = None,
    beam: Count | None = None,
    nbest: Count = 1,
    sampling: bool = False,
    top_k: Annotated[int, "K"] | None = None,
    top_p: Annotated[float, "P"] | None = None,
    temperature: Annotated[float, "T"] | None = None,
    seed: int | None = None,
    no_repeat_ngram_size: int = 0,
    lenpen: Annotated[float, "ALPHA"] = PAPER_DECODING["lenpen"],
    format: Format = "text",
    one_sentence_a_line: bool = False,
    long: Literal["error", "split", "truncate"] = "error",
    buffer: Count | None = None,
    batch_tokens: Count = 4096,
    cpu: bool = False,
    threads: Count | None = None,
    fp16: bool = False,
    bf16: bool = False,
) -> None:
    """Translate raw text with a bundle, line by line.

    Every line gives one line: the same if it has no letter or digit, an empty one if it is blank.

    Example: vaswani translate --model work/quickstart/model < raw.en > raw.de

    Args:
        inputs: text files with a text per line, plain or .gz; - is standard input (default: -).
        engine: what runs the model (default: the one that `vaswani export` made the bundle for,
            otherwise torch).
        nbest: print the N best translations of each line; as text: LINE <tab> SCORE <tab> TEXT
            (default: 1, the text alone).
        sampling: draw --nbest samples instead of searching for the best translation.
        seed: random seed: the same lines give the same samples (default: a new seed each time);
            lines are then not translated before there are --buffer of them.
        format: json: one object per line with line, source and hypotheses (text, score, tokens,
            token_scores, alignment); scores are natural logarithms, the last one that of </s>.
            Of a line's sentences, or a sentence's parts, each has its </s>, and score is the sum.
        one_sentence_a_line: take each line as one sentence, as for test sets; otherwise the
            sentences of a line are translated one by one, and a sentence much longer than those of
            the training in parts.
        long: what to do with a sentence of more subwords than the model takes: stop with an error,
            translate it in parts, or cut it off.
        batch_tokens: most source subwords in a batch, padding included.
    """
    lines = text_lines(inputs, output)
    translator = load_translator(model, engine, cpu, threads, fp16, bf16)
    translations = translator.stream(
        lines,
        buffer=buffer or 1000,
        one_sentence=one_sentence_a_line,
        long=long,
        align=format == "json",
        beam=beam,
        nbest=nbest,
        length_penalty=lenpen,
        batch_tokens=batch_tokens,
        no_repeat_ngram=no_repeat_ngram_size,
        sampling=sampling,
        top_k=top_k,
        top_p=top_p,
        temperature=temperature,
        seed=seed,
    )

    def shown(number: int, translation: "Translation") -> list[str]:
        if format == "json":
            entry = {"line": number, "source": translation.source}
            hypotheses = [each._asdict() for each in translation.hypotheses]
            return [json.dumps(entry | {"hypotheses": hypotheses})]
        if nbest == 1:
            return [translation.text]
        return [f"{number}\t{h.score:.6f}\t{h.text}" for h in translation.hypotheses]

    remedy = "give --long split or --long truncate, or divide the line"
    write_results(lines, output, translations, shown, remedy)


def load_translator(
    model: Path, engine: str | None, cpu: bool, threads: int | None, fp16: bool, bf16: bool
) -> "Translator":
    """Load the translator that the flags of an engine, a device and a precision ask for.

    Importing torch takes a second, and CTranslate2 has no use for it.
    """
    from vaswani_plugin.inference.bundle import engine_of
    from vaswani_plugin.inference.translator import Translator

    chosen = engine or engine_of(model)
    if chosen == "ctranslate2":
        from vaswani_plugin.inference.ctranslate2_engine import has_gpu

        device = "cuda" if not cpu and has_gpu() else "cpu"
    else:
        device = chosen_device(cpu, threads).type
    if fp16 and device == "cpu":
        raise UserError("--fp16 needs a GPU: leave it out on the CPU")
    if bf16 and device == "cpu":
        from vaswani_plugin.processor import has_bfloat16

        if chosen != "torch" or not has_bfloat16():
            raise UserError("--bf16 needs a GPU, or PyTorch on a CPU with AVX512_BF16 or AMX")
    precision = "float16" if fp16 else "bfloat16" if bf16 else None
    return Translator.from_pretrained(
        model, device=device, dtype=precision, threads=threads, engine=chosen
    )


@one_of("fp16", "bf16")
def serve(
    *,
    model: Folder,
    host: Annotated[str, "ADDRESS"] = "127.0.0.1",
    port: int = 5000,
    beam: Count | None = None,
    cpu: bool = False,
    threads: Count | None = None,
    fp16: bool = False,
    bf16: bool = False,
    api_keys: Path | None = None,
    requests_per_minute: Count | None = None,
    trusted_proxies: Annotated[str, addresses, "LIST"] | None = None,
    allow_origin: Annotated[list[str], "append", "URL"] | None = None,
    characters: Count = 10_000,
    timeout: Annotated[float, positive, "SECONDS"] = 60.0,
) -> None:
    """Translate over HTTP: LibreTranslate's interface and a web page.

    Example: vaswani serve --model work/quickstart/model --port 5000

    Args:
        host: address to listen on; 0.0.0.0 is all of this machine's.
        port: port to listen on; 0 chooses a free one.
        api_keys: require an API key; the file has one per line.
        requests_per_minute: most requests per minute of one key, or from one address without a
            right one (default: no limit).
        trusted_proxies: believe X-Forwarded-For of these addresses and networks, separated by
            commas: a web server in front of the service (default: of none).
        allow_origin: allow calls from this web site's pages; * allows all; may be repeated
            (default: none).
        characters: most characters of text in a request.
        timeout: seconds until an unanswered request gets an error.
    """
    try:
        import python_multipart  # noqa: F401 Starlette would miss it at the first form only

        from vaswani_plugin.serving.app import Gate, read_keys
        from vaswani_plugin.serving.server import bound_socket, run
        from vaswani_plugin.serving.texts import Limits
        from vaswani_plugin.serving.work import Service
    except ModuleNotFoundError as error:
        raise UserError(f"{error}: vaswani serve needs pip install -e '.[serve]'") from error
    keys = None if api_keys is None else read_keys(api_keys)
    limits, gate = Limits(characters=characters, seconds=timeout), Gate(keys, requests_per_minute)
    origins = [site.rstrip("/") for site in allow_origin or []]  # as browsers send them
    with bound_socket(host, port) as listener:
        translator = load_translator(model, None, cpu, threads, fp16, bf16)
        beam = beam or translator.settings.beam or PAPER_DECODING["beam"]
        run(Service(translator, beam, limits), gate, listener, origins, trusted_proxies)


@one_of("source", "corpus", required=True)
def attention(
    *,
    model: Folder,
    source: str | None = None,
    corpus: list[Path] | None = None,
    target: str | None = None,
    words: bool = False,
    kind: Literal["cross", "decoder", "encoder"] = "cross",
    layer: int | None = None,
    heads: list[Annotated[int, "H"]] | None = None,
    lines: bool = False,
    word: str | None = None,
    output: list[Path] | None = None,
    format: Format = "text",
) -> None:
    """Show what each head attends to: as a picture, an interactive page, numbers or statistics.

    Example: vaswani attention --model work/quickstart/model --source "The doctor sleeps." \\
        --words --output attention.html figure.svg

    Args:
        source: show the attention for this sentence.
        corpus: print statistics of each head over a corpus: a source file and, optionally, its
            target file.
        target: translation of --source (default: the model's own).
        words: sum the weights of subwords into words.
        kind: encoder: self-attention, decoder: masked self-attention, cross: encoder-decoder
            attention.
        layer: layer to draw, from 1 on (default: the last).
        heads: heads to draw, from 1 on (default: all).
        lines: draw lines between tokens as in the paper's Figures 3 to 5, not heat maps.
        word: draw only this word's lines; implies --lines.
        output: format by suffix: .html (interactive, all layers and heads), .json (all weights),
            .png, .svg, .pdf (default: attention.png, with --format json none).
    """
    if corpus is not None:
        if len(corpus) > 2:
            raise UserError(f"--corpus takes one file or two, not {len(corpus)}")
        unused = {"--target": target, "--layer": layer, "--heads": heads, "--word": word}
        unused["--kind"] = None if kind == "cross" else kind
        for flag, value in {**unused, "--lines": lines or None, "--output": output}.items():
            if value is not None:
                raise UserError(f"{flag} goes with --source: --corpus prints a table")
        output = []
    from vaswani_plugin.figures import attention_report as report
    from vaswani_plugin.figures.figures import check_plot_path
    from vaswani_plugin.inference.translator import Translator

    if output is None:
        output = [] if format == "json" else [Path("attention.png")]
    for picture in output:
        if picture.suffix not in (".html", ".json"):
            check_plot_path(picture)
    translator = Translator.from_pretrained(model)
    merge = translator.pipeline.subwords if words else None
    if corpus is not None:
        statistics = report.corpus_statistics(report.attend_corpus(translator, corpus, merge))
        show(statistics, report.as_table(statistics), format)
        return
    assert source is not None  # the other one of --source and --corpus
    attended = translator.attention(source, target)
    for flag, unknown in zip(("--source", "--target"), attended.unknown, strict=True):
        if unknown:
            message = f"vaswani attention: {flag}: {unknown} tokens are unknown to the model"
            print(message, file=sys.stderr)
    attended = attended.merged(merge) if merge else attended
    report.write_sentence(attended, output, kind, layer, heads, lines, word)
    if format == "json":
        print(json.dumps(report.as_json(attended)))
    for written in output:
        print(os.path.abspath(written), file=sys.stderr if format == "json" else sys.stdout)
