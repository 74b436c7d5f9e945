"""recipes/benchmarks/serving: what it measures of a service, and what it calls good."""

import sys

import pytest
from toy_bundle import SENTENCES, write_toy_bundle

from tests.conftest import REPO

pytest.importorskip("starlette", reason="the service needs pip install '.[serve]'")
sys.path.insert(0, str(REPO / "recipes" / "benchmarks"))

import serving  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark")
    lines = [sentence[:n] for sentence in SENTENCES for n in (12, 25, 40)]
    (folder / "lines").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    (folder / "work").mkdir()
    model = write_toy_bundle(folder)
    return [
        *("--model", str(model), "--lines", str(folder / "lines"), "--work", str(folder / "work")),
        *("--requests", "100", "--clients", "4", "--minutes", "0"),
    ]


def test_a_service_is_measured(arguments):
    result = serving.measure(serving.options().parse_args(arguments))
    many, single = result["many"], result["single"]
    assert many["requests"] == 100 and many["other"] == 0
    assert many["throughput"] == pytest.approx(many["all_clients"] / many["one_client"], 0.01)
    assert 0 < single["translator"]["p50"] <= single["translator"]["p95"]
    assert "100 of 100 without an error; 0 differ" in serving.as_text(result)


def make_result(throughput=4.0, added=5.0, flat=True, status=503, stop=9.0):
    return {
        "many": {"throughput": throughput},
        "single": {"added_p95_milliseconds": added},
        "load": {
            "flat": {"memory": flat},
            "statuses": {0: 1, 200: 5, status: 1},
            "exit_code": 0,
            "stop_seconds": stop,
        },
    }


def test_each_goal_can_be_missed():
    assert serving.meets_goals(make_result())
    assert not serving.meets_goals(make_result(throughput=2.9))
    assert not serving.meets_goals(make_result(added=31))
    assert not serving.meets_goals(make_result(flat=False))
    assert not serving.meets_goals(make_result(status=500))
    assert not serving.meets_goals(make_result(stop=16.0))


@pytest.mark.parametrize("flags", [["--requests", "99"], ["--clients", "1"], ["--minutes", "-1"]])
def test_flags_that_measure_nothing(arguments, flags):
    with pytest.raises(UserError, match=flags[0]):
        serving.main([*arguments, *flags])
