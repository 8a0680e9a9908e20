"""The frames of an Arrow stream, read as far as to see whether its columns are packed.

Packed columns say themselves how long they are when unpacked: a few bytes could ask for all memory
there is. Arrow's own reader does not tell before it has done so. A stream is a row of messages,
each a table of FlatBuffers and a body, and one field of a batch says that it is packed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

CONTINUATION = 0xFFFFFFFF
DICTIONARY, BATCH = 2, 3
# Places of fields in their tables, from Arrow's Message.fbs.
HEADER_TYPE, HEADER, BODY_LENGTH = 1, 2, 3
COMPRESSION, DICTIONARY_DATA = 3, 1


def is_packed(stream: bytes) -> bool:
    """Say whether a batch of an Arrow stream is packed.

    Parameters
    ----------
    stream : bytes
        An Arrow IPC stream, which may be damaged.

    Returns
    -------
    packed : bool

    Raises
    ------
    ValueError
        For what is no such stream.

    Examples
    --------
    >>> import io
    >>> import pyarrow as pa
    >>> from kpp.serve.arrow_frames import is_packed
    >>> def written(packing):
    ...     table, sink = pa.table({"a": list(range(1000))}), io.BytesIO()
    ...     options = pa.ipc.IpcWriteOptions(compression=packing)
    ...     with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
    ...         writer.write_table(table)
    ...     return sink.getvalue()
    >>> is_packed(written(None)), is_packed(written("lz4")), is_packed(written("zstd"))
    (False, True, True)
    """
    try:
        return any(_packs(stream, message) for message in _messages(stream))
    except struct.error as error:
        raise ValueError("the stream ends in the middle of a message") from error


def _messages(stream: bytes) -> Iterator[int]:
    """Where the table of each message begins."""
    at = 0
    while at < len(stream):
        mark, size = struct.unpack_from("<Ii", stream, at)
        if mark != CONTINUATION:
            raise ValueError("no message begins where one must")
        if size == 0:
            return
        if size < 8 or at + 8 + size > len(stream):
            raise ValueError("a message is longer than the stream")
        message = _table(stream, at + 8)
        yield message
        place = _field(stream, message, BODY_LENGTH)
        body = 0 if place is None else struct.unpack_from("<q", stream, place)[0]
        if body < 0:
            raise ValueError("a body of negative length")
        at += 8 + size + body


def _packs(stream: bytes, message: int) -> bool:
    kind, header = _field(stream, message, HEADER_TYPE), _field(stream, message, HEADER)
    if kind is None or header is None or stream[kind] not in (DICTIONARY, BATCH):
        return False
    batch = _table(stream, header)
    if stream[kind] == DICTIONARY:
        data = _field(stream, batch, DICTIONARY_DATA)
        if data is None:
            return False
        batch = _table(stream, data)
    return _field(stream, batch, COMPRESSION) is not None


def _table(stream: bytes, at: int) -> int:
    """The table that an offset points to."""
    found: int = at + struct.unpack_from("<I", stream, at)[0]
    return found


def _field(stream: bytes, table: int, number: int) -> int | None:
    """Where a field of a table stands; None where it is not set."""
    fields = table - struct.unpack_from("<i", stream, table)[0]
    if fields < 0:
        raise ValueError("a table outside of the stream")
    (size,) = struct.unpack_from("<H", stream, fields)
    place = 4 + 2 * number
    if place + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", stream, fields + place)
    return table + offset if offset else None
