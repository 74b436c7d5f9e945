"""The criterion gives fairseq's own label-smoothed loss, fused or not, ours or a stock model."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from model_factory import make_model, make_stock_twin, random_batch

from vaswani_plugin.fairseq_plugin.criterion import VaswaniLabelSmoothing

LENGTHS = [(9, 7), (4, 11), (12, 2)]


@pytest.fixture(scope="module")
def model(task):
    return make_model(task, positions="sinusoidal-fairseq", layer_norm_eps=1e-5)


@pytest.fixture
def sample(task, model):
    """A batch; the model predicts the first three tokens of the first sentence right."""
    batch = random_batch(task, LENGTHS)
    previous, pad = batch["prev_output_tokens"], task.target_dictionary.pad()
    target = torch.full_like(previous, pad)
    for row, (_, length) in enumerate(LENGTHS):
        target[row, : length - 1] = previous[row, 1:length]
        target[row, length - 1] = task.target_dictionary.eos()
    with torch.no_grad():
        target[0, :3] = model(**batch)[0][0, :3].argmax(-1)
    return {"net_input": batch, "target": target, "ntokens": 20, "nsentences": 3}


def ours(task, epsilon=0.1, accuracy=True, unfused=False, sentence_avg=False):
    return VaswaniLabelSmoothing(task, sentence_avg, epsilon, accuracy, unfused)


def theirs(task, epsilon=0.1, sentence_avg=False):
    return LabelSmoothedCrossEntropyCriterion(task, sentence_avg, epsilon, report_accuracy=True)


def gradients(criterion, model, sample) -> dict[str, torch.Tensor]:
    model.zero_grad()
    criterion(model, sample)[0].backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def assert_equal_logs(actual, expected):
    assert set(actual) == set(expected)
    for key, value in expected.items():
        assert float(actual[key]) == pytest.approx(float(value), rel=1e-5), key


@pytest.mark.parametrize(
    ("epsilon", "unfused", "sentence_avg"),
    [(0.0, False, False), (0.1, False, True), (0.1, True, False), (0.3, True, True)],
)
def test_logs_what_fairseqs_criterion_logs(task, model, sample, epsilon, unfused, sentence_avg):
    stock = make_stock_twin(model)
    loss, size, log = ours(task, epsilon, True, unfused, sentence_avg)(model, sample)
    their_loss, their_size, their_log = theirs(task, epsilon, sentence_avg)(stock, sample)
    assert size == their_size == (3 if sentence_avg else 20)
    assert loss.item() == pytest.approx(their_loss.item(), rel=1e-5)
    assert_equal_logs(log, their_log)
    assert log["total"] == 20 and log["n_correct"] >= 3
    losses = ours(task, epsilon)(model, sample, reduce=False)[0]
    assert losses.numel() == sample["target"].numel()
    assert losses.sum().item() == pytest.approx(loss.item(), rel=1e-5)
    assert "n_correct" not in ours(task, accuracy=False)(model, sample)[2]


def test_on_a_stock_model_it_is_fairseqs_criterion(task, model, sample):
    stock = make_stock_twin(model)
    _, _, log = ours(task)(stock, sample)
    _, _, their_log = theirs(task)(stock, sample)
    assert_equal_logs(log, their_log)
    mine, stocks = gradients(ours(task), stock, sample), gradients(theirs(task), stock, sample)
    for name, gradient in stocks.items():
        torch.testing.assert_close(mine[name], gradient, atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.parametrize("unfused", [False, True])
def test_when_the_loss_projects(task, sample, monkeypatch, unfused):
    """By the model's own function, but where the user, or DDP around it, asks for the logits."""
    calls, model = [], make_model(task)
    real = model.projected_loss
    monkeypatch.setattr(model, "projected_loss", lambda *args: calls.append(args) or real(*args))
    ours(task, unfused=unfused)(model, sample)
    assert len(calls) == (not unfused)
    model.find_unused_parameters = True  # as PyTorch's DDP, wrapped around it, bears it
    ours(task, unfused=unfused)(model, sample)
    assert len(calls) == (not unfused)


@pytest.mark.parametrize("unfused", [False, True])
def test_padding_predicted_at_padding_is_no_hit(task, sample, unfused):
    model = make_model(task)
    with torch.no_grad():
        model.projection_weight[1] = 1.0
        model.decoder.layers[-1].feed_forward_norm.norm.bias.fill_(9.0)
        assert model(**sample["net_input"])[0].argmax(-1).eq(1).all()
    log = ours(task, unfused=unfused)(model, sample)[2]
    assert (log["n_correct"], log["total"]) == (0, 20)


def test_reduced_metrics_are_fairseqs(task, model, sample):
    stock = make_stock_twin(model)
    wrong = torch.where(sample["target"].eq(1), 1, 4 + (sample["target"] - 3) % 23)
    other = dict(sample, target=wrong)
    reduced = []
    for criterion, twin in ((ours(task), model), (theirs(task), stock)):
        logs = [criterion(twin, batch)[2] for batch in (sample, other)]
        with metrics.aggregate(new_root=True) as aggregator:
            criterion.reduce_metrics(logs)
        reduced.append(aggregator.get_smoothed_values())
    actual, expected = reduced
    assert set(actual) == set(expected) >= {"loss", "nll_loss", "ppl", "accuracy"}
    for key, value in expected.items():
        assert float(actual[key]) == pytest.approx(float(value), rel=1e-4), key
