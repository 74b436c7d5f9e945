"""Hugging Face's transformers loads what we export and computes what our model computes."""

import json
import shutil

import pytest
import torch
import yaml
from bundle import make_bundle, make_settings
from toy_bundle import SENTENCES, write_checkpoint, write_toy_bundle

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.huggingface_export import (
    export_to_huggingface,
)
from vaswani_plugin.export.huggingface_import import import_from_huggingface
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.search.models import TransformerModel
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Search
from vaswani_plugin.text import wordpiece, wordpiece_learning
from vaswani_plugin.text.characters import remove_invisible

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
    ours, theirs = Bundle.load(bundle).load_transformer(), load(folder)
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
            input_ids=source,
            attention_mask=source.ne(ours.source.pad()),
            decoder_input_ids=target,
        ).logits
    assert expected.std() > 1
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("is_saved_there", [False, True])
def test_the_way_back_gives_the_same_weights(exported, tmp_path, is_saved_there):
    """transformers writes other names for shared weights and leaves the sinusoids out."""
    bundle, folder = exported
    languages = ()
    if is_saved_there:
        load(folder).save_pretrained(tmp_path / "saved")
        transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "saved")
        folder, languages = tmp_path / "saved", ("en", "de")
    import_from_huggingface(folder, tmp_path / "back", *languages)
    before, after = (Bundle.load(path).load_transformer() for path in (bundle, tmp_path / "back"))
    expected, found = before.model.state_dict(), after.model.state_dict()
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())
    assert before.source == after.source and before.target == after.target
    pipelines = [Bundle.load(path).pipeline for path in (bundle, tmp_path / "back")]
    assert len({tuple(map(pipeline.encode, LINES)) for pipeline in pipelines}) == 1


def test_tokenizers_agree(exported):
    bundle, folder = exported
    pipeline, tokenizer = (
        Bundle.load(bundle).pipeline,
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    dictionary = Bundle.load(bundle).load_transformer().source
    for line in map(remove_invisible, LINES):  # MarianTokenizer can't leave characters out
        pieces = pipeline.encode(line).split()
        assert tokenizer.tokenize(line) == pieces
        numbers = [*map(dictionary.index, pieces), dictionary.eos()]
        assert tokenizer(line).input_ids == numbers
        decoded = tokenizer.decode(numbers, skip_special_tokens=True)
        assert decoded == pipeline.decode(" ".join(pieces)).strip()


def test_generate_finds_what_our_search_finds(exported):
    """By Hugging Face's rules, which are those of --length-penalty fairseq."""
    bundle, folder = exported
    ours, model = Bundle.load(bundle).load_transformer(), load(folder)
    generator = torch.Generator().manual_seed(2)
    sources = torch.randint(4, len(ours.source), (40, 12), generator=generator)
    sources[:, -1] = ours.source.eos()
    limit = {"max_len_a": 0, "max_len_b": LIMIT}
    options = SearchOptions(beam=4, lenpen=1.0, length_penalty="fairseq", **limit)
    search = Search([TransformerModel(ours.model)], ours.target, options)
    expected = [found[0].tokens.tolist() for found in search.run(sources)]
    generated = model.generate(
        input_ids=sources,
        attention_mask=torch.ones_like(sources),
        num_beams=4,
        length_penalty=1.0,
        early_stopping=True,
        max_new_tokens=LIMIT + 1,
        forced_eos_token_id=ours.source.eos(),
    )
    pad = ours.target.pad()
    found = [[token for token in row[1:].tolist() if token != pad] for row in generated]
    # At the limit, Hugging Face counts the forced end as certain.
    ended = [(o, e) for o, e in zip(found, expected, strict=True) if len(e) < LIMIT + 1]
    assert len(ended) >= 15 and len({tuple(e) for _, e in ended}) > 8
    assert sum(one == other for one, other in ended) >= 0.95 * len(ended)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--d-k 4 --layer-norm-eps 1e-3", "--d-k 4 .*--layer-norm-eps 0.001; --to ctranslate2 can"),
        ("--positions learned --attention-window 3", "--positions learned, --attention-window 3"),
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
    ours, theirs = Bundle.load(bundle).load_transformer(), load(tmp_path / "hf")
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


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    """A MarianMT that transformers trained, with the special tokens of Marian's released models."""
    folder = tmp_path_factory.mktemp("marian")
    write_pieces(folder)
    text = (folder / "dict.en.txt").read_text(encoding="utf-8").split("\n")[:-1]
    symbols = ["</s>", "<unk>", *(line.rpartition(" ")[0] for line in text), "<pad>"]
    pad, saved = len(symbols) - 1, folder / "saved"
    config = transformers.MarianConfig(
        vocab_size=len(symbols),
        d_model=32,
        **{f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in MARIANS.items()},
        activation_function="relu",
        scale_embedding=True,
        dropout=0.0,
        max_position_embeddings=64,
        pad_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        decoder_start_token_id=pad,
        bad_words_ids=[[pad]],
    )
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config)
    saved.mkdir()
    for name in ("source.spm", "target.spm"):
        (saved / name).write_bytes((folder / "pieces").read_bytes())
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    (saved / "vocab.json").write_text(json.dumps(numbers), encoding="utf-8")
    tokenizer_config = {"source_lang": "en", "target_lang": "de"}
    tokenizer_config["tokenizer_class"] = "MarianTokenizer"
    (saved / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    tokenizer = transformers.AutoTokenizer.from_pretrained(saved)
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    labels = batch.input_ids.flip(0).masked_fill(batch.input_ids.flip(0) == pad, -100)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(120):
        optimizer.zero_grad()
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
    model.generation_config.num_beams = 6
    model.eval().save_pretrained(saved)
    return saved, model, tokenizer


MARIANS = {"layers": 2, "ffn_dim": 64, "attention_heads": 4}


def test_a_model_that_starts_with_padding_computes_the_same(marian, tmp_path):
    """As all of Marian's released ones do; without <s> in the vocabulary, as they are."""
    folder, model, tokenizer = marian
    import_from_huggingface(folder, tmp_path / "bundle")
    translator = Translator.from_pretrained(tmp_path / "bundle")
    assert translator.settings.beam == 6
    # transformers' `generate` takes the start from generation_config.json first.
    path = shutil.copytree(folder, tmp_path / "other") / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"decoder_start_token_id": 0}))
    import_from_huggingface(path.parent, tmp_path / "of_other")
    other = Bundle.load(tmp_path / "of_other").load_transformer().model
    assert other.decoder.embedding.weight is other.encoder.embedding.weight
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    greedy = model.generate(**batch, num_beams=1, do_sample=False, max_new_tokens=60)
    expected = tokenizer.batch_decode(greedy, skip_special_tokens=True)
    found = [each.text for each in translator.translate(SENTENCES, beam=1)]
    assert found == expected and len(set(found)) > 3
    for source, target in zip(SENTENCES, reversed(SENTENCES), strict=True):
        pair = tokenizer(source, text_target=target, return_tensors="pt")
        with torch.no_grad():
            log_p = model(**pair).logits.log_softmax(-1)
        theirs = log_p.gather(-1, pair.labels[..., None])[0, :, 0]
        ours = torch.tensor(translator.score([(source, target)])[0].token_scores)
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", {"activation_function": "swish"}, "activation_function is 'swish'.*'relu'"),
        ("config.json", {"decoder_ffn_dim": 7}, "encoder_ffn_dim and decoder_ffn_dim differ"),
        ("config.json", {"model_type": "bart"}, "model_type is 'bart'"),
        ("config.json", {"encoder_layers": 9}, "should hold 9 layers of the encoder"),
        ("config.json", {"eos_token_id": [0, 1]}, r"eos_token_id is \[0, 1\]"),
        ("config.json", {"no_repeat_ngram_size": 3}, "no_repeat_ngram_size is 3"),
        ("generation_config.json", {"do_sample": True}, "do_sample is True"),
        ("generation_config.json", {"bad_words_ids": [[5]]}, "bad_words_ids is"),
        ("vocab.json", {"<extra>": 10_000}, "should number the model's"),
        ("tokenizer_config.json", {"source_lang": None}, "give --source-lang"),
        ("model.safetensors", None, "model.safetensors: no weights of a model"),
        ("target.spm", None, "source.spm and .*target.spm differ"),
    ],
)
def test_what_a_bundle_cannot_express_is_refused(marian, tmp_path, name, change, message):
    """Damaged files (None) and every field that changes the result."""
    path = shutil.copytree(marian[0], tmp_path / "saved") / name
    if change is None:
        path.write_bytes(path.read_bytes()[:-9])
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=message) as error:
        import_from_huggingface(path.parent, tmp_path / "back")
    assert "\n" not in str(error.value) and not (tmp_path / "back").exists()
