"""Hugging Face's transformers loads our language models as OpenAI GPT and computes the same."""

import json

import pytest
import torch
from toy_language_model import ONE_LAYER, WORDS, write_bundle, write_checkpoint, write_data

from vaswani_plugin.export.huggingface_export import export_to_huggingface
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.model.families import ELSEWHERE
from vaswani_plugin.text import bpe_learning, coding
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import TextSettings

transformers = pytest.importorskip(
    "transformers", reason="Hugging Face's transformers is missing: pip install '.[huggingface]'"
)

TEXTS = ["The old bird", "  two  spaces ", "tab\tand ▁ \u2028x"]
TEXTS += ["Ünï 中文 😀 <x> a@@ @ </s> <unk>", "e\u0301 \u00e9 a\u200bb", " ", "a"]


def make_bundle(folder, kind):
    """A bundle of random weights with peaked logits, and texts that it knows all units of."""
    if kind.startswith("words"):
        flags = ("--norm", "pre") if kind == "words, GPT-2" else ()
        made = write_bundle(folder / "model", TextSettings("words"), [*WORDS, "\u00e9"], *flags)
        return made, [" ".join([*WORDS[:5], "e\u0301"])]
    if kind == "characters":
        units = [unit for text in TEXTS for unit in coding.encode_characters(text).split()]
        units = list(dict.fromkeys(units))
        return write_bundle(folder / "model", TextSettings(kind), units), TEXTS
    lines = "".join(f"{coding.to_letters(text * 2)}\n" for text in TEXTS)
    (folder / "text").write_text(lines, encoding="utf-8")
    bpe_learning.learn([str(folder / "text")], 30, 2, str(folder / "codes"))
    units = coding.bpe_units(str(folder / "codes"))
    made = write_bundle(folder / "model", TextSettings(kind, codes="codes"), units)
    (folder / "codes").rename(made / "codes")
    return made, TEXTS


@pytest.fixture(scope="module", params=["words", "words, GPT-2", "characters", "bpe"])
def exported(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    bundle, texts = make_bundle(folder, request.param)
    export_to_huggingface(bundle, folder / "hf")
    return bundle, folder / "hf", texts


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder).eval()


def test_tokenizers_agree(exported):
    bundle, folder, texts = exported
    pipeline = Pipeline.load(bundle)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    dictionary = LanguageModel.from_pretrained(bundle).dictionary
    for text in texts:
        units = pipeline.encode(text)
        numbers = [dictionary.eos(), *map(dictionary.index, units.split())]
        assert tokenizer(text).input_ids == numbers
        assert tokenizer.decode(numbers[1:]) == pipeline.decode(units)


def test_texts_of_several_lines_have_the_same_log_p(exported):
    """A line ends with </s>, also in the middle of a text."""
    bundle, folder, texts = exported
    ours, theirs = LanguageModel.from_pretrained(bundle), load(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    first, last = texts[0], texts[-1]
    for text in (f"{first}\n{last}", f"{first}\n\n {last}", f"\n{last} \n", f"{first}\n"):
        numbers = torch.tensor([[*tokenizer(text).input_ids, ours.dictionary.eos()]])
        with torch.no_grad():
            log_p = theirs(numbers).logits.log_softmax(-1)[:, :-1]
        expected = log_p.gather(-1, numbers[:, 1:, None])[0, :, 0]
        found = torch.tensor(ours.score(text).token_scores)
        assert expected.std() > 1
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)
        assert ours.dictionary.unk() not in numbers


def test_words_that_the_model_lacks_are_unknown(tmp_path):
    bundle, _ = make_bundle(tmp_path, "words")
    export_to_huggingface(bundle, tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert tokenizer(f"zebra {WORDS[0]} zebras").input_ids == [2, 3, 4, 3]
    assert tokenizer(f"<s> {WORDS[0]} </s>\n<pad> <sep>").input_ids == [2, 3, 4, 3, 2, 3, 3]


def test_what_gpt_lacks_is_refused(tmp_path, monkeypatch):
    import toy_language_model

    flags = ("--d-k", "4", "--d-ff", "256")
    monkeypatch.setattr(toy_language_model, "OURS", (*toy_language_model.OURS, *flags))
    bundle, _ = make_bundle(tmp_path, "words")
    message = "no counterpart of --d-k 4, --d-ff 256 with --d-model 32"
    with pytest.raises(ValueError, match=message):
        export_to_huggingface(bundle, tmp_path / "hf")
    former = (bundle / "preprocessing.json").read_text()
    settings = TextSettings("words", article_tokens=9, summary_tokens=5)
    (bundle / "preprocessing.json").write_text(settings.to_json())
    with pytest.raises(ValueError, match="holds a summarizer"):
        export_to_huggingface(bundle, tmp_path / "hf")
    (bundle / "preprocessing.json").write_text(former)
    data = write_data(tmp_path)
    (data / "dict.txt").replace(bundle / "dict.txt")
    (data / "dict.txt").symlink_to(bundle / "dict.txt")
    if ELSEWHERE:
        write_checkpoint(data, bundle / "model.pt", *ONE_LAYER, updates=0)
        with pytest.raises(ValueError, match="model.pt holds no Transformer: one is needed"):
            export_to_huggingface(bundle, tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def test_without_a_tokenizer_the_vocabulary_is_there(tmp_path):
    bundle, _ = make_bundle(tmp_path, "words")
    export_to_huggingface(bundle, tmp_path / "hf", with_tokenizer=False)
    assert not (tmp_path / "hf" / "tokenizer.json").exists()
    assert json.loads((tmp_path / "hf" / "vocab.json").read_text())[WORDS[0]] == 4
    assert "words" in (tmp_path / "hf" / "README.md").read_text()
