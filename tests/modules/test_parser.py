"""Where words begin and end, and which one comes next, against loops over lists."""

import numpy as np
import pytest
import torch

from vaswani_plugin.modules.parser import NextWord, first_tokens_of_words, last_tokens_of_words
from vaswani_plugin.modules.transformer import Cache, WholeSequence

PAD, EOS, ENDS, GOES_ON = 1, 2, 4, 5
ENDS_WORD = torch.tensor([False, False, False, False, True, False])
SENTENCES = {
    "whole words": [ENDS, ENDS, ENDS],
    "pieces": [GOES_ON, ENDS, ENDS, GOES_ON, GOES_ON, ENDS],
    "an unfinished word": [ENDS, GOES_ON, GOES_ON],
    "one piece": [GOES_ON],
    "nothing": [],
}


def words_of(sentence):
    """The (first, last) places of each word."""
    words, begin = [], 0
    for place, token in enumerate(sentence):
        if token == ENDS or place == len(sentence) - 1:
            words.append((begin, place))
            begin = place + 1
    return words


def batch_of(sentences, pad_left):
    width = max(map(len, sentences)) + 2
    rows = []
    for sentence in sentences:
        row, padding = [*sentence, EOS], [PAD] * (width - len(sentence) - 1)
        rows.append([*padding, *row] if pad_left else [*row, *padding])
    return torch.tensor(rows)


@pytest.mark.parametrize("pad_left", [False, True])
def test_words_begin_and_end(pad_left):
    sentences = list(SENTENCES.values())
    tokens = batch_of(sentences, pad_left)
    last = last_tokens_of_words(tokens, ENDS_WORD, PAD, EOS)
    first = first_tokens_of_words(tokens, ENDS_WORD, PAD, EOS)
    for row, sentence in enumerate(sentences):
        words = words_of(sentence)
        shift = tokens.size(1) - len(sentence) - 1 if pad_left else 0
        assert last[row].nonzero().flatten().tolist() == [end + shift for _, end in words]
        rest = [len(sentence) + shift] * (first.size(1) - len(words))
        assert first[row].tolist() == [begin + shift for begin, _ in words] + rest
    assert first.size(1) == tokens.size(1) + 1
    # a batch of one empty sentence
    assert first_tokens_of_words(torch.tensor([[EOS]]), ENDS_WORD, PAD, EOS).tolist() == [[0, 0]]


def test_the_next_word_is_projected():
    module = NextWord(8, ENDS_WORD, torch.ones(3, dtype=torch.bool), PAD, EOS)
    source = batch_of([SENTENCES["pieces"], SENTENCES["one piece"]], False)
    memory = torch.randn(2, source.size(1), 8, generator=torch.Generator().manual_seed(1))
    written = [[0, 1, 1, 2, 3], [0, 0, 1, 1, 5]]
    expected_columns = [[0, 2, 2, 3, 6], [0, 0, 1, 1, 1]]  # behind the last word: the end
    found = module(module.words(source, memory), torch.tensor(written))
    for row, columns in enumerate(expected_columns):
        for place, column in enumerate(columns):
            expected = module.weight.detach().numpy() @ memory[row, column].numpy()
            np.testing.assert_allclose(found[row, place].detach().numpy(), expected, atol=1e-6)
    is_word = torch.tensor([False, True, False])  # what opens or ends is no word
    amounts, cache = is_word[torch.tensor([[0, 1, 2, 1, 0]])].long(), Cache()
    assert WholeSequence().running_sum("words", amounts).tolist() == [[0, 1, 1, 2, 2]]
    pieces = [cache.running_sum("words", x) for x in amounts.split((2, 3), dim=1)]
    assert torch.cat(pieces, dim=1).tolist() == [[0, 1, 1, 2, 2]]
    assert list(module.state_dict()) == ["weight"]  # the dictionaries tell the rest
