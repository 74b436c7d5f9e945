"""Scores of outputs: `vaswani bleu`, `evalb` (parse trees), `rouge` (summaries) and `rescore`."""

import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from vaswani_plugin.cli.command import (
    Count,
    Folder,
    Format,
    chosen_device,
    finite,
    one_of,
    read_number,
    show,
)
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.languages import check_language
from vaswani_plugin.text.raw_text import base_language

if TYPE_CHECKING:
    from vaswani_plugin.text.summaries import Example

NO_SPACES = (
    "the references have no spaces between words, which tok:13a needs: give --language NAME, or "
    "--sacrebleu-tokenizer zh or char"
)
JSONL = (".jsonl", ".jsonl.gz")


@one_of("hypothesis", "generate_output", required=True)
@one_of("language", "tokenized")
def bleu(
    *,
    hypothesis: Path | None = None,
    generate_output: Path | None = None,
    reference: list[Path] | None = None,
    lowercase: bool = False,
    language: Annotated[str, "NAME"] | None = None,
    tokenized: bool = False,
    sacrebleu_tokenizer: Literal["13a", "zh", "ja-mecab", "ko-mecab", "char", "intl"] | None = None,
    compound_split: bool = False,
    source: Path | None = None,
    count: Count | None = None,
    training_source: Path | None = None,
    format: Format = "text",
) -> None:
    """Score translations: tokenized, compound-split and sacreBLEU, chrF, and a comment on them.

    Example: vaswani bleu --hypothesis test.hyp.de --reference test.de --language de --format json

    Args:
        hypothesis: the translations, one per line.
        generate_output: output of fairseq-generate; sacreBLEU reads its D lines, --tokenized its H
            lines.
        reference: the references, one per line; several files are several references of each
            sentence (default with --generate-output: its T lines).
        lowercase: ignore case.
        language: language of running text; also prints the scores that papers print, over words by
            Moses' rules: tokenized BLEU and, for de, compound-split BLEU; also chooses sacreBLEU's
            tokenizer.
        tokenized: the text is tokenized; also prints BLEU over its words, as multi-bleu does (its
            sacreBLEU is then not comparable to published ones).
        sacrebleu_tokenizer: sacreBLEU's tokenizer (default: by --language, as sacreBLEU does: zh,
            ja-mecab, ko-mecab; char for other languages without spaces between words; else 13a).
        compound_split: with --tokenized: also print BLEU with words split at hyphens
            (English-German).
        source: the source sentences; also prints BLEU by their length.
        count: how many translations there must be; a --generate-output without its log does not
            tell whether sentences were skipped.
        training_source: the training set's source; also prints BLEU by how rare a sentence's words
            are in it: by their mean frequency rank, and by the rarest word (needs --source).
    """
    is_german = language is not None and base_language(check_language(language)) == "de"
    if compound_split and not (tokenized or is_german):
        raise UserError("--compound-split goes with --tokenized; --language de splits by itself")
    if training_source and not source:
        raise UserError("--training-source needs --source FILE")
    from vaswani_plugin.metrics import bleu as report  # imports sacreBLEU
    from vaswani_plugin.metrics.segments import has_no_spaces, read_segments

    paths = hypothesis, generate_output, reference, source
    segments = read_segments(*paths, count=count, tokenized=tokenized)
    tokenizer: str | None = sacrebleu_tokenizer
    if tokenizer is None:
        tokenizer, warning = report.tokenizer_of(language)
        segments.warnings += [warning] if warning else []
        if tokenizer == "13a" and has_no_spaces(segments.references[0]):
            segments.warnings.append(NO_SPACES)
    for warning in segments.warnings:
        print(f"vaswani bleu: {warning}", file=sys.stderr)
    result = report.score(segments, lowercase, language, compound_split or is_german, tokenizer)
    if source:
        result |= report.by_bucket(segments, lowercase, training_source, tokenizer)
    show(result, report.as_text(result), format)


def evalb(
    gold: Annotated[Path, "GOLD"],
    test: Annotated[Path, "TEST"],
    *,
    parameters: Path | None = None,
    summary: bool = False,
    format: Format = "text",
) -> None:
    """Score parse trees as EVALB does: labelled recall, precision, F, crossing, tagging.

    Example: vaswani evalb gold.trees parsed.trees --parameters COLLINS.prm --summary

    Args:
        gold: file of the reference trees, one per line.
        test: file of the trees to score, one per line; an empty line is a sentence without a tree.
        parameters: EVALB's parameter file (default: the settings of COLLINS.prm; /dev/null: EVALB's
            settings when it gets no file). Its MAX_ERROR has no effect.
        summary: print only the summary, no row for each sentence.
    """
    from vaswani_plugin.files.lines import read_text
    from vaswani_plugin.metrics import evalb as metric

    settings = metric.COLLINS
    if parameters:
        text = parameters.read_text(encoding="utf-8-sig", errors="replace")
        settings = metric.parse_parameters(text.split("\n"), str(parameters))
    trees = list(read_text(gold)), list(read_text(test))
    _check_length(gold, len(trees[0]), test, len(trees[1]))
    has_table = format == "text" and not summary
    if has_table:
        print(metric.HEAD)
    scores = []
    for number, pair in enumerate(zip(*trees, strict=True), 1):
        score = metric.compare(number, *pair, settings)
        if has_table:
            print(metric.row(score))
        for message in score.errors:
            print(f"{score.line} : {message}", file=sys.stderr)
        scores.append(score)
    if has_table:
        print(metric.total_row(scores))
    every = metric.summary(scores)
    short = metric.summary([score for score in scores if score.length <= settings.cutoff])
    text = metric.as_text({"All": every, f"len<={settings.cutoff}": short})
    show({"all": every, f"len_{settings.cutoff}": short}, text, format)


def rouge(
    *,
    hypothesis: Path | None = None,
    references: list[Path],
    lead: Annotated[list[Count], "append"] | None = None,
    over: Literal["best", "mean"] = "best",
    no_stemming: bool = False,
    format: Format = "text",
) -> None:
    """ROUGE-1, -2, -L and -Lsum of summaries, compared with the articles' first sentences.

    Example: vaswani rouge --hypothesis test.hyp --references raw/test.jsonl --lead 1

    Args:
        hypothesis: the summaries to score, one per line.
        references: reference summaries, one per line, a file for each set of references; or one
            .jsonl of data-prep/summaries.py, which also holds the articles.
        lead: also score the first N sentences of each article of a .jsonl; may be repeated.
        over: over several references: take the best F1 or the mean.
        no_stemming: compare whole words, not Porter stems.
    """
    if not hypothesis and not lead:
        raise UserError("nothing to score: give --hypothesis FILE or --lead N")
    from vaswani_plugin.files.lines import read_text
    from vaswani_plugin.metrics import rouge as metric
    from vaswani_plugin.metrics.segments import decomposed

    examples = _read_examples(references, bool(lead))
    systems = {f"lead-{n}": ["\n".join(e.article[:n]) for e in examples] for n in lead or []}
    if hypothesis:
        systems["model"] = list(read_text(hypothesis))
        _check_length(hypothesis, len(systems["model"]), references[0], len(examples))
    golds = [example.references for example in examples]
    texts = [(str(references[0]), [line for gold in golds for line in gold])]
    for warning in decomposed([(str(hypothesis), systems.get("model", [])), *texts]):
        print(f"vaswani rouge: {warning}", file=sys.stderr)
    report = metric.rouge_report(systems, golds, over, not no_stemming)
    show(report, metric.as_text(report), format)


def _read_examples(references: list[Path], is_lead_asked: bool) -> list["Example"]:
    """References of each summary, and its article where a .jsonl has it."""
    from vaswani_plugin.files.lines import read_text
    from vaswani_plugin.text.summaries import Example, read_examples

    if whole := [path for path in references if str(path).endswith(JSONL)]:
        if len(references) > 1:
            raise UserError(f"{whole[0]}: has all references: give no other file")
        examples = list(read_examples(str(references[0])))
        if not examples:
            raise UserError(f"{references[0]}: the file is empty")
        return examples
    files = [list(read_text(path)) for path in references]
    for path, lines in zip(references, files, strict=True):
        _check_length(path, len(lines), references[0], len(files[0]))
    if is_lead_asked:
        raise UserError("--lead needs a .jsonl for --references, which has the articles")
    return [Example([], list(golds)) for golds in zip(*files, strict=True)]


def _check_length(path: Path, lines: int, other: Path, expected: int) -> None:
    if lines != expected:
        raise UserError(f"{path} has {lines} lines, {other} has {expected}: they must correspond")


@one_of("weights", "dev_nbest")
def rescore(
    *,
    system: Annotated[list[str], "append", "NAME=FILE[:FILE...]"],
    data: Folder,
    bpe_codes: Path | None = None,
    nbest: Path,
    source: Path,
    reference: list[Path] | None = None,
    dev_nbest: Path | None = None,
    dev_source: Path | None = None,
    dev_reference: list[Path] | None = None,
    output: Path | None = None,
    weights: Annotated[list[str], "NAME=NUMBER"] | None = None,
    max_tokens: Count = 4000,
    cpu: bool = False,
    threads: Count | None = None,
    format: Format = "text",
) -> None:
    """Rescore n-best lists with models or ensembles, by weights that give the best BLEU.

    Each --system adds log P of the hypotheses to the list's own score. The table is that of
    Sutskever et al. (2014), section 3.6. Without --dev-nbest and --weights both count the same, as
    there, which harms where the system is the weaker one.

    Example: vaswani rescore --data BIN --nbest test.nbest --source test.en --reference test.de \\
        --dev-nbest valid.nbest --dev-source valid.en --dev-reference valid.de \\
        --system lstm=lstm.pt --system five=a.pt:b.pt:c.pt:d.pt:e.pt --output best.de

    Args:
        system: a checkpoint, or several as an ensemble, that scores the hypotheses; may be
            repeated: each gets a row of the table, and --output uses the last.
        data: folder of the models' dictionaries.
        bpe_codes: split sources and hypotheses by these BPE codes.
        nbest: the n-best lists, in Moses' format, ids from 0.
        source: source sentences, one per line.
        reference: tokenized references, one per line.
        dev_nbest: n-best lists of a development set, for which the weights are searched.
        dev_source: source sentences of --dev-nbest.
        dev_reference: references of --dev-nbest.
        output: write the best hypothesis of each list.
        weights: fixed weights; NAME is a system (its log P), score (that of the list) or words (the
            number of words).
        max_tokens: most target tokens in a batch, padding included.
    """
    from vaswani_plugin.files.outputs import check_outputs, write_lines

    systems = _read_systems(system)
    inputs = [nbest, source, dev_nbest, dev_source, bpe_codes, *data.glob("dict*.txt")]
    inputs += [*(reference or []), *(dev_reference or []), *chain(*systems.values())]
    check_outputs("--output", [output], inputs)
    of_dev = dev_nbest, dev_source, dev_reference
    if any(of_dev) and not all(of_dev):
        raise UserError("--dev-nbest, --dev-source and --dev-reference go together")
    fixed = _read_weights(weights or [], ["score", "words", *systems])
    from vaswani_plugin.inference import rescoring  # importing torch takes a second

    test = rescoring.Lists(nbest, source, reference, bpe_codes)
    dev = None
    if dev_nbest and dev_source:
        dev = rescoring.Lists(dev_nbest, dev_source, dev_reference, bpe_codes)
    device, notes = chosen_device(cpu, threads), []
    for name, scorer in rescoring.load_scorers(systems, data, device):
        for lists in filter(None, (test, dev)):
            notes += lists.add(name, scorer, max_tokens)
    for note in notes:
        print(note, file=sys.stderr)

    def given(names: list[str]) -> dict[str, float]:
        even = {name: 0.0 if name == "words" else 0.5 for name in names}
        return {name: fixed.get(name, 0.0) for name in names} if fixed else even

    weigh = partial(rescoring.search_weights, dev) if dev else given
    rows = rescoring.make_rows(systems, weigh, dev, test)
    if output is not None:
        last = [row["weights"] for row in rows if row["weights"]][-1]
        write_lines(output, (test.words[place] for place in test.best(test.scores(last))))
    result = {"sentences": test.count, "hypotheses": len(test.outputs), "rows": rows}
    show({"output": output and str(output), **result}, rescoring.as_table(rows), format)


def _read_systems(arguments: list[str]) -> dict[str, list[Path]]:
    """The checkpoints of each NAME=FILE[:FILE...]."""
    systems: dict[str, list[Path]] = {}
    for text in arguments:
        name, _, paths = text.partition("=")
        if not paths or not name.isidentifier() or name in ("score", "words", *systems):
            raise UserError(
                f"--system {text}: must be NAME=CHECKPOINT[:CHECKPOINT...], a NAME once, and not "
                "score or words, which are the list's own features"
            )
        systems[name] = [Path(path) for path in paths.split(":")]
        for path in systems[name]:  # fail now, not after an hour of scoring by the first systems
            path.stat()
    return systems


def _read_weights(arguments: list[str], names: list[str]) -> dict[str, float]:
    """The number of each NAME=NUMBER; names are those of the features."""
    weights: dict[str, float] = {}
    for text in arguments:
        name, _, value = text.partition("=")
        if name not in names:
            raise UserError(f"--weights {text}: must be NAME=NUMBER of {', '.join(names)}")
        weights[name] = read_number(f"--weights {text}", value, finite)
    return weights
