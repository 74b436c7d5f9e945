"""Hugging Face's transformers loads what we export and computes what our model computes."""

import pytest
import torch
import yaml
from bundle import make_bundle, make_settings
from toy_bundle import SENTENCES, write_checkpoint, write_toy_bundle

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.huggingface_export import export_to_huggingface
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.search.models import TransformerModel
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Search
from vaswani_plugin.text import wordpiece, wordpiece_learning
from vaswani_plugin.text.raw_text import canonical

transformers = pytest.importorskip(
    "transformers", reason="Hugging Face's transformers is missing: pip install '.[huggingface]'"
)

EOS = 2
ENDS_EARLY = 11.0
"""Added to the logit of the end of sentence, so that outputs end before their limit."""
LIMIT = 20
LINES = [
    *SENTENCES,
    "Ünïcode: “quotes”, ½, Ⅷ, ﬁne, 你好，世界。 — مرحبا, हिन्दी, 😀!",
    "tabs\tand  two spaces, a </s> and an <unk>",
    "e\u0301 and \u00e9, a\u200bb, zero\u00a0break",
]


def write_pieces(folder):
    """A sentencepiece model of the sentences, and its dictionary for both languages."""
    text = folder / "text"
    text.write_text("".join(f"{line}\n" for line in SENTENCES * 3), encoding="utf-8")
    (folder / "pieces").write_bytes(wordpiece_learning.learn([str(text)], 340, "bpe"))
    lines = "".join(f"{line}\n" for line in wordpiece.dictionary_lines(str(folder / "pieces")))
    for language in ("en", "de"):
        (folder / f"dict.{language}.txt").write_text(lines, encoding="utf-8")


def write_bundle(folder, share="all", flags=()):
    """A bundle of raw word pieces with random weights that no initialization would give."""
    write_pieces(folder)
    path = folder / "averaged.pt"
    write_checkpoint(folder, path, model=("--arch", "vaswani_debug", *flags), share=share)
    state = torch.load(path)
    generator = torch.Generator().manual_seed(3)
    for memory in {tensor.data_ptr(): tensor for tensor in state["model"].values()}.values():
        memory += 0.2 * torch.randn(memory.shape, generator=generator)
    end = state["model"]["decoder.projection.weight"][EOS]
    last = "decoder.layers.1.feed_forward_norm.norm.bias"
    state["model"][last] += ENDS_EARLY * end / end.square().sum()
    torch.save(state, path)
    raw = ["lowercase=false", "normalize_punctuation=false", "tokenizer=none"]
    pairs = [*raw, "subwords=sentencepiece", f"codes={folder / 'pieces'}", "beam=4"]
    make_bundle(path, folder, make_settings("en-de", pairs, folder), folder / "model")
    return folder / "model"


@pytest.fixture(scope="module", params=["all", "decoder", "none"])
def exported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    bundle = write_bundle(folder, request.param)
    export_to_huggingface(bundle, folder / "hf")
    return bundle, folder / "hf"


def load(folder):
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()


def test_logits_are_the_same(exported):
    bundle, folder = exported
    ours, theirs = Bundle.load(bundle).load_model(), load(folder)
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, len(ours.source), (9, 20), generator=generator)
    target = torch.randint(4, len(ours.target), (9, 17), generator=generator)
    target[:, 0] = source[:, -1] = ours.source.eos()
    source[1, 12:] = source[2, 3:] = ours.source.pad()
    with torch.no_grad():
        model = ours.model
        memory = model.encoder(source).features
        mask = source.ne(ours.source.pad())[:, None, None]
        expected = model.decoder.project(model.decoder(target, memory, mask).features)
        found = theirs(
            input_ids=source, attention_mask=source.ne(ours.source.pad()), decoder_input_ids=target
        ).logits
    assert expected.std() > 1
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_tokenizers_agree(exported):
    bundle, folder = exported
    pipeline = Bundle.load(bundle).pipeline
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    dictionary = Bundle.load(bundle).load_model().source
    for line in map(canonical, LINES):  # MarianTokenizer changes no character
        pieces = pipeline.encode(line).split()
        assert tokenizer.tokenize(line) == pieces
        numbers = [*map(dictionary.index, pieces), dictionary.eos()]
        assert tokenizer(line).input_ids == numbers
        decoded = tokenizer.decode(numbers, skip_special_tokens=True)
        assert decoded == pipeline.decode(" ".join(pieces)).strip()


def test_generate_finds_what_our_search_finds(exported):
    """By Hugging Face's rules, which are those of --length-penalty fairseq."""
    bundle, folder = exported
    ours, model = Bundle.load(bundle).load_model(), load(folder)
    generator = torch.Generator().manual_seed(2)
    sources = torch.randint(4, len(ours.source), (40, 12), generator=generator)
    sources[:, -1] = ours.source.eos()
    limit = {"max_len_a": 0, "max_len_b": LIMIT}
    options = SearchOptions(beam=4, lenpen=1.0, length_penalty="fairseq", **limit)
    search = Search([TransformerModel(ours.model)], ours.target, options)
    expected = [found[0].tokens.tolist() for found in search.run(sources)]
    rules = {"num_beams": 4, "length_penalty": 1.0, "early_stopping": True}
    rules |= {"max_new_tokens": LIMIT + 1, "forced_eos_token_id": ours.source.eos()}
    generated = model.generate(input_ids=sources, attention_mask=torch.ones_like(sources), **rules)
    pad = ours.target.pad()
    found = [[token for token in row[1:].tolist() if token != pad] for row in generated]
    # At the limit, Hugging Face counts the forced end as certain.
    ended = [(o, e) for o, e in zip(found, expected, strict=True) if len(e) < LIMIT + 1]
    assert len(ended) >= 15 and len({tuple(e) for _, e in ended}) > 8
    assert sum(one == other for one, other in ended) >= 0.95 * len(ended)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--d-k 4 --layer-norm-eps 1e-3", "--d-k 4, --layer-norm-eps 0.001; --to onnx may"),
        ("--positions learned --attention-window 3", "--positions learned, --attention-window 3"),
        ("--norm pre", "--norm pre; --to onnx may"),
    ],
)
def test_what_marian_lacks_is_refused(tmp_path, flags, message):
    bundle = write_bundle(tmp_path, flags=flags.split())
    with pytest.raises(ValueError, match=f"no counterpart of {message}"):
        export_to_huggingface(bundle, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def test_text_by_moses_rules_and_bpe_has_a_tokenizer(tmp_path):
    """The model reads as <unk> every piece that its dictionary lacks, and never writes one."""
    bundle = write_toy_bundle(tmp_path, share="all")
    export_to_huggingface(bundle, tmp_path / "hf")
    ours, theirs = Bundle.load(bundle).load_model(), load(tmp_path / "hf")
    pipeline, size = Bundle.load(bundle).pipeline, len(ours.source)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    tokenizer.save_pretrained(tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    for line in LINES:
        pieces = pipeline.encode(line).split()
        numbers = [*map(ours.source.index, pieces), EOS]
        found = tokenizer(line).input_ids
        assert [n if n < size else ours.source.unk() for n in found] == numbers
        assert again(line).input_ids == found
        if ours.source.unk() not in numbers:
            assert tokenizer.decode(numbers[:-1]) == pipeline.decode(" ".join(pieces))
    assert theirs.config.vocab_size > size
    source, target = torch.arange(4, 14)[None], torch.arange(13, 3, -1)[None]
    with torch.no_grad():
        memory = ours.model.encoder(source).features
        mask = torch.ones(1, 1, 1, 10, dtype=torch.bool)
        expected = ours.model.decoder.project(ours.model.decoder(target, memory, mask).features)
        logits = theirs(input_ids=source, decoder_input_ids=target).logits
    torch.testing.assert_close(logits[..., :size], expected, atol=1e-4, rtol=0)
    assert logits[..., size:].max() < -1e8
    beyond = torch.full_like(source, size)
    with torch.no_grad():
        read = [theirs.model.encoder(x)[0] for x in (beyond, torch.full_like(source, 3))]
    assert torch.equal(*read)


def test_two_dictionaries_have_no_tokenizer_there(tmp_path):
    bundle = write_toy_bundle(tmp_path)
    with pytest.raises(UserError, match="dictionary for each language.*--without-tokenizer"):
        export_to_huggingface(bundle, tmp_path / "hf")
    export_to_huggingface(bundle, tmp_path / "hf", with_tokenizer=False)
    assert load(tmp_path / "hf").config.d_model == 32
    front = yaml.safe_load((tmp_path / "hf" / "README.md").read_text().split("---")[1])
    assert front["language"] == ["en", "de"] and front["library_name"] == "transformers"
    assert not (tmp_path / "hf" / "tokenizer_config.json").exists()
