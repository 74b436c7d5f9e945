"""Text with other models: `vaswani lm`, `complete`, `summarize` and `parse`."""

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from vaswani_plugin.cli.command import (
    Count,
    Folder,
    Format,
    Natural,
    Place,
    chosen_device,
    fraction,
    non_negative,
    one_of,
    perplexity,
    read_number,
    show,
    text_lines,
    write_results,
)
from vaswani_plugin.errors import UserError, optional, require_choice
from vaswani_plugin.files.programs import message_line
from vaswani_plugin.search.options import PAPER_DECODING, PARSER_DECODING

if TYPE_CHECKING:
    from vaswani_plugin.inference.language_model import LanguageModel
    from vaswani_plugin.inference.language_model_scores import Span
    from vaswani_plugin.inference.parsing import ParsedSentence
    from vaswani_plugin.inference.summarization import Summary
    from vaswani_plugin.metrics.token_stream import ScoredText

Alpha = Annotated[float, "ALPHA"]


def lm(
    *,
    model: Folder | None = None,
    text: Path | None = None,
    tokens_per_sample: Count | None = None,
    context_window: Natural = 0,
    batch_tokens: Count = 4096,
    dynamic: bool = False,
    dynamic_rate: Annotated[float, non_negative] = 0.01,
    dynamic_decay: Annotated[float, fraction] = 0.001,
    baselines: bool = False,
    train_data: list[Place] | None = None,
    valid_data: Path | None = None,
    figure: Annotated[list[str], ("VALUE", "UNIT")] | None = None,
    counts: Annotated[list[Count], ("WORDS", "CHARACTERS")] | None = None,
    cpu: bool = False,
    threads: Count | None = None,
    format: Format = "text",
) -> None:
    """Perplexity of a language model per token, word, character and byte, and of n-gram baselines.

    Example: vaswani lm --model work/lm/model --text test.txt --baselines --train-data train.txt

    Args:
        model: the bundle: a folder model/ of recipes/lm.sh.
        text: raw text, plain or .gz.
        tokens_per_sample: tokens of a window, context included (default: as in the model's
            training).
        context_window: the first N tokens of a window are context only, as in fairseq-eval-lm.
        batch_tokens: most tokens in a batch, padding included.
        dynamic: dynamic evaluation (Krause et al. 2018): train on each window after scoring it.
        dynamic_rate: its learning rate.
        dynamic_decay: after each window, move the weights back by this fraction, 0 to 1.
        baselines: also score uniform and n-gram models.
        train_data: text files whose words the baselines count.
        valid_data: validation text for the baselines.
        figure: convert a published figure to the other units; UNIT is bits-per-word,
            bits-per-character, bits-per-byte or perplexity-per-word.
        counts: sizes of the figure's text, if no --text.
    """
    if not model and (dynamic or context_window or tokens_per_sample or not (baselines or figure)):
        raise UserError("give --model DIR (--dynamic needs it), --baselines or --figure VALUE UNIT")
    if not dynamic and (dynamic_rate, dynamic_decay) != (0.01, 0.001):
        raise UserError("--dynamic-rate and --dynamic-decay go with --dynamic")
    if not text and (model or baselines or not counts):
        raise UserError("no text: give --text FILE")
    if counts and counts[0] > counts[1]:
        raise UserError(f"--counts {counts[0]} {counts[1]}: a word has a character or more")
    if baselines != bool(train_data) or (valid_data and not baselines):
        raise UserError("--baselines and --train-data PATH, which it counts, need each other")
    from vaswani_plugin.metrics import perplexity as metric
    from vaswani_plugin.metrics.ngram import baselines as score_baselines
    from vaswani_plugin.metrics.token_stream import read_scored_text

    if figure is not None:
        unit = figure[1]
        require_choice("the unit of --figure", unit, *metric.FIGURES)
        read = perplexity if unit == "perplexity-per-word" else non_negative
        value = read_number(f"--figure {' '.join(figure)}", figure[0], read)
    report: dict[str, Any] = dict.fromkeys(("text", "windows", "dynamic", "dynamic_gain"))
    report |= {"results": [], "warnings": []}
    sizes = metric.TextCounts(0, counts[0], counts[1], 0) if counts else None
    if text:
        known, loaded = {}, None
        if model:
            from vaswani_plugin.inference.language_model import LanguageModel  # imports torch
            from vaswani_plugin.inference.language_model_scores import windows

            loaded = LanguageModel.from_pretrained(model, device=chosen_device(cpu, threads))
            names = "dictionary", "pipeline", "saw_lines_apart"
            known = {name: getattr(loaded, name) for name in names}
        scored = read_scored_text(text, **known)
        sizes = scored.counts
        report["results"] += score_baselines(scored, train_data or [], valid_data)
        if loaded and scored.tokens:
            size = loaded.window_size(tokens_per_sample)
            report["windows"] = {"tokens_per_sample": size, "context_window": context_window}
            learning = None
            if dynamic:
                learning = report["dynamic"] = {"rate": dynamic_rate, "decay": dynamic_decay}
            cut = windows(len(scored.tokens.numbers), *report["windows"].values())
            rows = _score(loaded, scored, cut, learning, batch_tokens)
            report["results"] += rows
            if learning:
                static, learned = rows
                keys = ("perplexity", "perplexity_per_word")
                gains = {k: static[k] - learned[k] for k in keys if static[k] and learned[k]}
                report["dynamic_gain"] = dict.fromkeys(keys) | gains
        report["warnings"] += scored.warnings
    if figure is not None and sizes is not None:
        report["results"].append(metric.figure(value, unit, sizes))
    report["text"] = sizes and asdict(sizes)
    show(metric.finite(report), metric.as_text(report), format)


def _score(
    model: "LanguageModel",
    scored: "ScoredText",
    cut: list["Span"],
    learning: dict[str, Any] | None,
    batch_tokens: int,
) -> list[dict[str, Any]]:
    """The model's row, and one of dynamic evaluation where `learning` has its rate and decay."""
    from tqdm import tqdm

    from vaswani_plugin.metrics.perplexity import result

    tokens = scored.tokens
    assert tokens is not None
    scorer = model.stream_scorer(tokens.numbers)
    works = {"model": partial(scorer.static, cut, batch_tokens)}
    if learning:
        works["model, dynamic"] = partial(scorer.dynamic, cut, **learning)
    rows = []
    for title, work in works.items():
        with tqdm(total=len(tokens.numbers), desc=title, unit=" tokens", disable=None) as bar:
            scores = work(advance=bar.update)
        rows.append(result(title, scored.coding, scores, scored.counts, unknown=tokens.unknown))
    return rows


@one_of("beam", "sampling")
@one_of("top_k", "top_p")
def complete(
    prompts: list[Annotated[str, "PROMPT"]] | None = None,
    *,
    model: Folder,
    beam: Count = 1,
    sampling: bool = False,
    lenpen: Alpha = 0.0,
    top_k: Annotated[int, "K"] | None = None,
    top_p: Annotated[float, "P"] | None = None,
    temperature: Annotated[float, "T"] | None = None,
    seed: int | None = None,
    samples: Count = 1,
    max_new_tokens: Count | None = None,
    min_new_tokens: Natural = 0,
    no_repeat_ngram_size: Natural = 0,
    stop: Literal["end", "never"] = "end",
    format: Format = "text",
    cpu: bool = False,
    threads: Count | None = None,
) -> None:
    """Complete texts with a language model.

    The model reads an end of sentence before the prompt, as before each line in training. So an
    empty prompt begins a text.

    Example: vaswani complete --model work/lm/model --sampling --top-p 0.9 "The history of"

    Args:
        prompts: the beginning of a text, one or more lines (default: each line of standard input).
        model: the bundle: a folder model/ of recipes/lm.sh.
        beam: beam size (default: 1, greedy search).
        sampling: sample each token at random.
        lenpen: with --beam: exponent alpha of the length penalty ((5 + length) / 6)^alpha.
        seed: random seed; the samples of a prompt then depend only on the seed, the prompt and its
            number, and prompts are completed one by one (default: a new seed each time).
        samples: completions of each prompt: N samples, or without --sampling the N best of the
            beam.
        max_new_tokens: most tokens of a completion (default: 100, at most half of the positions).
        min_new_tokens: fewest tokens of a completion (default: 0).
        stop: end: stop at the end of a line; never: continue with further lines up to
            --max-new-tokens.
        format: json: one object per prompt with line, prompt, prompt_tokens (those that were read)
            and completions (text, score, tokens, token_scores, ended); the logarithms are
            natural and after --temperature, the last one is of </s> if the model ended the text.
    """
    from vaswani_plugin.inference.language_model import LanguageModel

    loaded = LanguageModel.from_pretrained(model, device=chosen_device(cpu, threads))
    completions = loaded.stream(
        prompts or text_lines(None),
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens,
        stop=stop,
        beam=beam,
        nbest=samples,
        length_penalty=lenpen,
        no_repeat_ngram=no_repeat_ngram_size,
        sampling=sampling,
        top_k=top_k,
        top_p=top_p,
        temperature=temperature,
        seed=seed,
    )
    for number, completed in enumerate(completions, start=1):
        for warning in completed.warnings:
            print(message_line(f"vaswani complete: {warning}"), file=sys.stderr)
        texts = [completed.prompt + one.text for one in completed.continuations]
        entry: dict[str, Any] = {"line": number, "prompt": completed.prompt}
        entry["prompt_tokens"] = completed.prompt_tokens
        entry["completions"] = [vars(one) for one in completed.continuations]
        print(json.dumps(entry) if format == "json" else "\n".join(texts), flush=True)


def summarize(
    inputs: list[str] | None = None,
    *,
    model: Folder,
    output: Path | None = None,
    beam: Count | None = None,
    lenpen: Alpha = PAPER_DECODING["lenpen"],
    max_length: Count | None = None,
    no_repeat_ngram_size: Natural = 0,
    buffer: Count | None = None,
    batch_tokens: Count = 4096,
    format: Format = "text",
    cpu: bool = False,
    threads: Count | None = None,
) -> None:
    """Summarize articles with a bundle, one summary per article.

    The model continues `article <sep>`. Every line gives one line; an empty article gives an empty
    summary. Of an article that is too long only the beginning is read, as in training.

    Example: vaswani summarize --model work/summarization/model < articles > summaries

    Args:
        inputs: text files with an article per line, plain or .gz; - is standard input (default: -).
        model: the bundle: the folder model/ of recipes/summarization.sh.
        max_length: most subwords of a summary (default: the most in training).
        batch_tokens: most subwords of articles in a batch, padding included.
        format: json: one object per line with line, article_tokens, read_tokens, summary, score,
            tokens, token_scores (natural logarithms) and ended (false: cut at --max-length).
    """
    lines = text_lines(inputs, output)
    from vaswani_plugin.inference.summarization import Summarizer

    summarizer = Summarizer.from_pretrained(model, device=chosen_device(cpu, threads))
    summaries = summarizer.stream(
        lines,
        buffer=buffer or 256,
        beam=beam,
        length_penalty=lenpen,
        max_length=max_length,
        no_repeat_ngram=no_repeat_ngram_size,
        batch_tokens=batch_tokens,
    )
    total = cut = 0

    def shown(number: int, summary: "Summary") -> list[str]:
        nonlocal total, cut
        total, cut = number, cut + (summary.read_tokens < summary.article_tokens)
        entry = {"line": number, **vars(summary)}
        entry |= {"summary": entry.pop("text")}
        return [json.dumps(entry) if format == "json" else summary.text]

    write_results(lines, output, summaries, shown)
    if cut:
        print(
            f"vaswani summarize: {cut:,} of {total:,} articles are longer than the model reads; "
            f"of those the first {summarizer.article_tokens} units were read",
            file=sys.stderr,
        )


def parse(
    inputs: list[str] | None = None,
    *,
    model: Folder,
    output: Path | None = None,
    pretty: bool = False,
    draw: Annotated[Path, "FILE.SVG"] | None = None,
    unconstrained: bool = False,
    beam: Count | None = None,
    lenpen: Alpha = PARSER_DECODING["lenpen"],
    format: Format = "text",
    buffer: Count | None = None,
    batch_tokens: Count = 2048,
    cpu: bool = False,
    threads: Count | None = None,
) -> None:
    """Parse tokenized sentences into constituency trees with a bundle.

    A sentence is a line of words between blanks, as treebanks divide them ("do n't", a comma
    apart). Every line gives a line. It is empty for an empty sentence and, without the constraint,
    for an output that is no tree.

    Example: vaswani parse --model work/parsing/model --pretty < sentences

    Args:
        inputs: text files with a tokenized sentence per line, plain or .gz; - is standard input
            (default: -).
        model: the bundle: the folder model/ of recipes/parsing.sh.
        pretty: print each tree over several lines, indented.
        draw: also draw the trees by svgling; the tree of line 2 goes to FILE-2.svg, and so on.
        unconstrained: allow outputs that are no tree; the number of such sentences is printed at
            the end.
        beam: beam size (default: the bundle's; 21 if it names none).
        format: json: one object per line with line, tree (null if there is none), symbols and
            score.
        batch_tokens: most source subwords in a batch, padding included.
    """
    if pretty and format == "json":
        raise UserError("--pretty and --format json exclude each other; drop one")
    lines = text_lines(inputs, output)
    if draw is not None:
        if draw.suffix != ".svg":
            raise UserError(f"--draw {draw}: trees are drawn as .svg, which a browser shows")
        optional("svgling", "svgling")
    from vaswani_plugin.inference.parsing import Parser

    parser = Parser.from_pretrained(model, device=chosen_device(cpu, threads))
    sentences = parser.stream(
        lines,
        buffer=buffer or 256,
        beam=beam,
        length_penalty=lenpen,
        unconstrained=unconstrained,
        batch_tokens=batch_tokens,
    )
    total = malformed = 0

    def shown(number: int, sentence: "ParsedSentence") -> list[str]:
        nonlocal total, malformed
        total += bool(sentence.words)
        malformed += bool(sentence.words) and not sentence.bracketing
        _draw(number, sentence, draw)
        return [_shown(number, sentence, pretty, format)]

    write_results(lines, output, sentences, shown, "divide it")
    if unconstrained:
        print(f"vaswani parse: {malformed:,} of {total:,} sentences got no tree", file=sys.stderr)


def _draw(number: int, sentence: "ParsedSentence", path: Path | None) -> None:
    tree = sentence.tree if path is not None else None
    if path is None or tree is None:
        return
    import svgling

    from vaswani_plugin.files.outputs import write_lines
    from vaswani_plugin.text.trees import unescape_brackets

    try:
        for place in tree.treepositions("leaves"):
            tree[place] = unescape_brackets(tree[place])
        picture = svgling.draw_tree(tree, leaf_nodes_align=True).get_svg().tostring()
    except RecursionError:  # about 800 brackets deep: an untrained model writes such trees
        print(f"vaswani parse: line {number}: the tree is too deep to draw", file=sys.stderr)
        return
    write_lines(path if number == 1 else path.with_stem(f"{path.stem}-{number}"), [picture])


def _shown(number: int, sentence: "ParsedSentence", pretty: bool, format: str) -> str:
    if format == "json":
        symbols = sentence.parses[0].symbols if sentence.parses else []
        entry = {"line": number, "tree": sentence.bracketing or None, "symbols": symbols}
        return json.dumps(entry | {"score": sentence.score})
    if pretty and (tree := sentence.tree) is not None:
        try:
            return str(tree.pformat(margin=100))
        except RecursionError:
            return sentence.bracketing
    return sentence.bracketing
