"""Our search over fairseq's ConvS2S, as fairseq-generate prepares it, is fairseq's own search."""

import pytest
from fairseq.sequence_generator import SequenceGenerator
from foreign_models import make_convolutional
from search_setup import make_generator, make_sample, make_translation_task, outputs_of

SOURCES = [[9, 12, 7], [11, 5, 5, 20, 9], [14], [6, 6, 7, 8, 9, 10, 11, 12], [23, 22]]


@pytest.mark.parametrize("beam", [1, 4])
def test_hypotheses_are_fairseqs(beam: int) -> None:
    task = make_translation_task(20, length_penalty="fairseq")
    model = make_convolutional(task, beam)
    options = {"max_len_a": 0, "max_len_b": 9}
    stock = SequenceGenerator([model], task.target_dictionary, beam_size=beam, **options)
    expected = stock.generate([model], make_sample(SOURCES))
    found = make_generator(task, [model], beam=beam, lenpen=1.0, **options).generate(
        [model], make_sample(SOURCES)
    )
    for mine, stocks in zip(found, expected, strict=True):
        assert [tokens for tokens, _ in outputs_of(mine)] == [t for t, _ in outputs_of(stocks)]
        scores = [score for _, score in outputs_of(stocks)]
        assert [score for _, score in outputs_of(mine)] == pytest.approx(scores, abs=2e-5)
