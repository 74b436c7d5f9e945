"""The file of keys, and the rate of each client."""

import pytest

from vaswani_plugin.errors import UserError
from vaswani_plugin.serving.app import Gate, read_keys
from vaswani_plugin.serving.texts import Refusal


def test_keys(tmp_path):
    (tmp_path / "keys").write_text("# ours\n\nabc\n d-e_f\n")
    assert read_keys(tmp_path / "keys") == {"abc", "d-e_f"}


@pytest.mark.parametrize(
    ("text", "place"), [("abc\nd e f\n", ":2"), ("# nothing\n", ""), (b"abc\n\xff\xfe", ":2")]
)
def test_a_broken_file_is_named_with_its_line(tmp_path, text, place):
    path = tmp_path / "keys"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as error:
        read_keys(path)
    assert str(error.value).startswith(f"{path}{place}: ")
    assert "abc" not in str(error.value), "a message must not show a key"


def status(gate, key=None, address="1.2.3.4"):
    try:
        gate.check(key, address)
    except Refusal as refusal:
        return refusal.status
    return 200


def test_a_rate_is_of_each_client_and_fills_up_again(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    gate = Gate(None, 3)
    assert [status(gate) for _ in range(5)] == [200, 200, 200, 429, 429]
    assert status(gate, address="5.6.7.8") == 200
    now[0] += 59
    with pytest.raises(Refusal, match="Slowdown: 3 per 1 minute") as refused:
        gate.check(None, "1.2.3.4")
    assert 1 <= int(refused.value.headers["Retry-After"]) <= 2
    now[0] += 2
    assert [status(gate) for _ in range(4)] == [200, 200, 200, 429]
