"""TensorBoard's event files as fairseq writes them: a folder for each kind of statistics.

A file is a sequence of records: length (8 bytes), its checksum (4), data, its checksum (4). The
data is an Event of TensorBoard's protocol. tensorboardX provides the protocol and the checksum.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from vaswani_plugin.text.training_log import Record

_HEADER = struct.Struct("<QI")
_SUM = struct.Struct("<I")


def event_files(folder: Path) -> list[Path]:
    """The event files of a folder of `--tensorboard-logdir`, oldest first.

    Raises:
        ValueError: there are none.
    """
    # The name contains the second in which the file was created.
    found = sorted(folder.rglob("*tfevents*"), key=lambda path: path.name)
    if not found:
        raise ValueError(
            f"{folder}: neither a recipe's logs/train.log nor an event file of TensorBoard in it"
        )
    return found


def read_events(folder: Path) -> Iterator[Record]:
    """The statistics of all kinds in the order in which they were written.

    Raises:
        ValueError: no event files, or a broken one.
        OSError: a file can't be read.
    """
    scalars = []
    for path in event_files(folder):
        for event in _events(path):
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    row = (event.wall_time, path.parent.name, event.step)
                    scalars.append((*row, value.tag, value.simple_value))
    scalars.sort(key=lambda row: row[0])
    # fairseq writes one scalar an event; events of the same kind and update form a record.
    pending: dict[str, dict[str, str]] = {}
    for _, kind, step, tag, number in scalars:
        fields = pending.get(kind, {})
        if fields and (fields["num_updates"] != str(step) or tag in fields):
            yield kind, fields
            fields = {}
        pending[kind] = fields | {"num_updates": str(step), tag: str(number)}
    yield from pending.items()


def _events(path: Path) -> Iterator:
    """The events of a file; an incomplete last event is left out."""
    from tensorboardX.crc32c import crc32c
    from tensorboardX.proto.event_pb2 import Event

    def check(data: bytes, masked: int) -> None:
        crc = crc32c(data)
        if ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF != masked:
            raise ValueError(f"{path}: no event file of TensorBoard, or a broken one (check sum)")

    content = path.read_bytes()
    start = 0
    while start + _HEADER.size <= len(content):
        length, header_sum = _HEADER.unpack_from(content, start)
        check(content[start : start + 8], header_sum)
        start += _HEADER.size
        end = start + length
        if end + _SUM.size > len(content):
            return
        check(content[start:end], _SUM.unpack_from(content, end)[0])
        yield Event.FromString(content[start:end])
        start = end + _SUM.size
