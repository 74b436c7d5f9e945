"""Our search over models of fairseq, as fairseq-generate prepares them, is fairseq's own search."""

import pytest
from fairseq.models import FairseqDecoder, FairseqEncoderDecoderModel
from fairseq.sequence_generator import SequenceGenerator
from foreign_models import make_convolutional, make_lstm
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


class WithoutState(FairseqDecoder):
    """A decoder that reads the whole history at each step."""

    def __init__(self, decoder) -> None:
        super().__init__(decoder.dictionary)
        self.decoder = decoder

    def forward(self, prev_output_tokens, encoder_out):
        return self.decoder(prev_output_tokens, encoder_out=encoder_out)

    def max_positions(self) -> int:
        return self.decoder.max_positions()


def test_a_decoder_without_a_state_reads_the_history_again() -> None:
    task = make_translation_task(20)
    model = make_lstm(task)
    given = []
    forward = model.decoder.forward

    def watched(*args, **kwargs):
        given.append("incremental_state" in kwargs)
        return forward(*args, **kwargs)

    model.decoder.forward = watched
    sample = make_sample(sorted(SOURCES, key=len, reverse=True))  # as fairseq's LSTM takes them
    expected = make_generator(task, [model], beam=3).generate([model], sample)
    assert given and all(given), "a decoder with a state gets it"
    without = FairseqEncoderDecoderModel(model.encoder, WithoutState(model.decoder)).eval()
    found = make_generator(task, [without], beam=3).generate([without], sample)
    assert not given[-1]
    for mine, theirs in zip(found, expected, strict=True):
        for (tokens, score), (same, alike) in zip(
            outputs_of(mine), outputs_of(theirs), strict=True
        ):
            assert tokens == same and score == pytest.approx(alike, abs=2e-5)
