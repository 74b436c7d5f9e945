"""Batches across requests: what shares one, in which order, and what an error costs."""

import asyncio

from vaswani_plugin.serving.texts import Limits
from vaswani_plugin.serving.work import Batcher, BatchOptions


class Model:
    """Upper case; keeps its batches."""

    def __init__(self):
        self.batches = []

    def __call__(self, lines, options):
        self.batches.append(list(lines))
        return [f"{line.upper()}/{options.nbest}" for line in lines]


def run(scenario, lines=8, characters=1000, queue=100, wait=0.01):
    model = Model()

    async def whole():
        limits = Limits(batch_seconds=wait, batch=lines, batch_subwords=characters, queue=queue)
        batcher = Batcher(model, limits)
        batcher.start()
        try:
            return await asyncio.wait_for(scenario(batcher, model), 10)
        finally:
            await batcher.stop()

    return asyncio.run(whole()), model


def ask(batcher, *lines, nbest=1):
    return asyncio.create_task(batcher.decode(lines, BatchOptions(nbest)))


def test_requests_share_a_batch_and_each_gets_its_own_in_order():
    async def scenario(batcher, model):
        return await asyncio.gather(*(ask(batcher, f"a{n}", f"b{n}") for n in range(4)))

    found, model = run(scenario)
    assert found == [[f"A{n}/1", f"B{n}/1"] for n in range(4)]
    assert [len(batch) for batch in model.batches] == [8]


def test_a_batch_holds_no_more_lines_and_characters_than_allowed():
    async def scenario(batcher, model):
        return await asyncio.gather(ask(batcher, *("xxxx" for _ in range(10))))

    _, model = run(scenario, lines=3)
    assert [len(batch) for batch in model.batches] == [3, 3, 3, 1]
    _, model = run(scenario, characters=9)
    assert [len(batch) for batch in model.batches] == [2] * 5
    found, model = run(scenario, characters=1)  # a line that is too long goes alone
    assert [len(batch) for batch in model.batches] == [1] * 10
    assert found == [["XXXX/1"] * 10]


def test_pieces_of_requests_take_turns_in_a_batch():
    async def scenario(batcher, model):
        return await asyncio.gather(ask(batcher, *"aaaaaa"), ask(batcher, *"bb"))

    _, model = run(scenario, lines=4)
    assert model.batches[0] == ["a", "b", "a", "b"]


def test_other_options_make_another_batch_and_neither_starves():
    async def scenario(batcher, model):
        first = ask(batcher, *(f"a{n}" for n in range(20)))
        assert await ask(batcher, "b", nbest=3) == ["B/3"]
        assert not first.done()
        return await first

    found, model = run(scenario, lines=4)
    assert found == [f"A{n}/1" for n in range(20)]
    assert ["b"] in model.batches[:3]
