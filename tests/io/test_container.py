"""The bytes of a file: every one is checked, and sizes before memory is spent."""

import hashlib
import json
import os
import pickle
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from zoo import random_forest

from kpp.io import CannotSaveError, FileFormatError, describe, load, save
from kpp.io.container import MAX_HEADER, pack, seal
from kpp.io.strict_json import load_json

PREFIX = 20 + 32


@pytest.fixture
def saved(tmp_path):
    return save(random_forest(1), tmp_path / "forest.kpp")


def parts_of(path):
    """Prefix, header and parts, by the format's own description."""
    data = path.read_bytes()
    magic, version, length = struct.unpack("<8sIQ", data[:20])
    header = json.loads(data[PREFIX : PREFIX + length])
    at, parts = PREFIX + length, []
    for entry in header["parts"]:
        parts.append(data[at : at + entry["stored"]])
        at += entry["stored"]
    assert at == len(data)
    return magic, version, header, parts


def test_the_format_is_as_described(saved):
    data = saved.read_bytes()
    magic, version, header, parts = parts_of(saved)
    assert (magic, version) == (bytes.fromhex("894b50500d0a1a0a"), 2)
    length = struct.unpack("<Q", data[12:20])[0]
    assert data[20:52] == hashlib.sha256(data[:20] + data[52 : 52 + length]).digest()
    for entry, part in zip(header["parts"], parts, strict=True):
        assert hashlib.sha256(part).hexdigest() == entry["sha256"]
        raw = zlib.decompress(part) if entry["zlib"] else part
        item = 1 if entry["type"] == "json" else np.dtype(entry["type"]).itemsize
        assert len(raw) == item * int(np.prod(entry["shape"]))
    assert json.loads(zlib.decompress(parts[0]))["objects"][-1]["kind"] == "kpp.Forest"


@pytest.mark.parametrize(
    "content",
    [b"", b"\x89KPP", b"PK\x03\x04", pickle.dumps({"a": 1}), b"\x89KPP\n\x1a\n" + b"\0" * 60],
)
def test_other_files(content, tmp_path):
    path = tmp_path / "x.kpp"
    path.write_bytes(content)
    for read in (load, describe):
        with pytest.raises(FileFormatError, match=r"x\.kpp"):
            read(path)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.kpp")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_only_regular_files(tmp_path):
    with pytest.raises(FileFormatError, match="regular file"):
        load("/dev/null")


def rewritten(path, change):
    """The file with another header, under a right checksum."""
    _, version, header, parts = parts_of(path)
    other = change(header, parts)
    header = header if other is None else other
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(seal(version, text) + b"".join(parts))
    return path


def put(key, value, number=2):
    def change(header, parts):
        header["parts"][number][key] = value

    return change


def bomb(header, parts):
    parts[2] = zlib.compress(bytes(10_000_000), 9)
    header["parts"][2] |= {"stored": len(parts[2]), "zlib": True}
    header["parts"][2]["sha256"] = hashlib.sha256(parts[2]).hexdigest()


def announced_bomb(header, parts):
    bomb(header, parts)
    header["parts"][2]["shape"] = [1_000_000_000]


def trailing_in_a_part(header, parts):
    parts[0] += b"more"
    header["parts"][0]["stored"] += 4
    header["parts"][0]["sha256"] = hashlib.sha256(parts[0]).hexdigest()


def swapped_digests(header, parts):
    a, b = header["parts"][1], header["parts"][2]
    a["sha256"], b["sha256"] = b["sha256"], a["sha256"]


def without_last_part(header, parts):
    header["parts"].pop()
    parts.pop()


def swapped_parts(header, parts):
    header["parts"][1], header["parts"][2] = header["parts"][2], header["parts"][1]


HEADERS = {
    "object dtype": put("type", "|O"),
    "pickle dtype": put("type", "O"),
    "text dtype": put("type", "<U4"),
    "record dtype": put("type", "[('a', '<f8')]"),
    "big-endian": put("type", ">f8"),
    "dtype of a wrong type": put("type", ["<f8"]),
    "second document": put("type", "json"),
    "no document": put("type", "|u1", number=0),
    "huge shape": put("shape", [2**31 - 1, 2**31 - 1]),
    "huge empty shape": put("shape", [0, 2**31 - 1, 2**31 - 1]),
    "larger shape": put("shape", [10**6]),
    "negative shape": put("shape", [-1]),
    "float shape": put("shape", [3.0]),
    "true shape": put("shape", [True]),
    "enormous side": put("shape", [10**30]),
    "many dimensions": put("shape", [1] * 40),
    "shape of a wrong type": put("shape", "12"),
    "negative size": put("stored", -5),
    "size of a wrong type": put("stored", None),
    "enormous size": put("stored", 10**40),
    "order": put("order", "K"),
    "zlib": put("zlib", 1),
    "not compressed": put("zlib", False, number=0),
    "short digest": put("sha256", "ab"),
    "digest of a wrong type": put("sha256", 5),
    "capital digest": lambda h, p: h["parts"][2].update(sha256=h["parts"][2]["sha256"].upper()),
    "path": put("name", "../../etc/passwd"),
    "offset": put("offset", 0),
    "missing key": lambda h, p: h["parts"].__setitem__(2, {"type": "<f8"}),
    "swapped digests": swapped_digests,
    "swapped parts": swapped_parts,
    "bomb": bomb,
    "announced bomb": announced_bomb,
    "trailing bytes in a part": trailing_in_a_part,
    "part removed": without_last_part,
    "part removed from the list": lambda h, p: h["parts"].clear(),
    "another key": lambda h, p: h.update(more=1),
    "a list": lambda h, p: b"[]",
    "nothing": lambda h, p: b"",
    "not JSON": lambda h, p: b"{'parts': []}",
    "not ASCII": lambda h, p: '{"parts": "é"}'.encode(),
    "NaN": lambda h, p: b'{"parts": NaN}',
    "infinite": lambda h, p: b'{"parts": 1e999}',
    "long number": lambda h, p: b'{"parts": ' + b"9" * 10_000 + b"}",
    "twice": lambda h, p: b'{"parts": [], "parts": []}',
    "deep": lambda h, p: b'{"parts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep in quotes": lambda h, p: b'{"parts": "' + b"\\" * 100_001 + b'"}',
    "deep objects": lambda h, p: b'{"a":' * 500 + b"1" + b"}" * 500,
    "two values": lambda h, p: b'{"parts": []} {}',
}


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_headers(name, saved):
    rewritten(saved, HEADERS[name])
    tracemalloc.start()
    with pytest.raises(FileFormatError):
        load(saved)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000 + 40 * saved.stat().st_size


def test_a_bomb_of_the_size_that_is_announced(tmp_path):
    # Within the file's own limit of 100 to 1; max_bytes is the other one.
    path = tmp_path / "bomb.kpp"
    path.write_bytes(b"".join(pack(1, b"{}", [np.zeros(1 << 20)], 9)))
    assert path.stat().st_size < 10_000
    with pytest.raises(FileFormatError, match="max_bytes is 1000000"):
        load(path, max_bytes=1_000_000)
    with pytest.raises(FileFormatError, match="objects, libraries and metadata"):
        load(path)


def test_a_header_that_is_announced_too_long(saved):
    data = bytearray(saved.read_bytes())
    for length in (2**63, MAX_HEADER + 1, len(data)):
        data[12:20] = struct.pack("<Q", length)
        saved.write_bytes(data)
        with pytest.raises(FileFormatError, match="header is announced"):
            load(saved)


def test_a_document_that_is_too_long(tmp_path):
    path = tmp_path / "long.kpp"
    path.write_bytes(b"".join(pack(1, b" " * ((1 << 26) + 1), [], 1)))
    with pytest.raises(FileFormatError, match="at most 67108864"):
        load(path, max_bytes=1 << 40)


def test_a_newer_version(saved):
    data = bytearray(saved.read_bytes())
    data[8] = 7
    saved.write_bytes(data)
    message = r"format version 7; this kpp reads 1 and 2\. It was written by a newer kpp"
    with pytest.raises(FileFormatError, match=message):
        load(saved)


def test_booleans_that_are_neither(saved, tmp_path):
    _, version, header, parts = parts_of(save(random_forest(1), saved, compression=0))
    header["parts"][2] |= {"type": "|b1", "zlib": False}
    parts[2] = b"\2" * len(parts[2])
    header["parts"][2]["sha256"] = hashlib.sha256(parts[2]).hexdigest()
    saved.write_bytes(seal(version, json.dumps(header).encode()) + b"".join(parts))
    with pytest.raises(FileFormatError, match="neither 0 nor 1"):
        load(saved)


def test_the_order_of_memory(tmp_path):
    path = tmp_path / "a.kpp"
    array = np.arange(12.0).reshape(3, 4)
    path.write_bytes(b"".join(pack(1, b"{}", [array, np.asfortranarray(array)], 6)))
    from kpp.io.container import Container

    with open(path, "rb") as file:
        container = Container(file)
        a, b = container.array(1), container.array(2)
    assert (a == array).all()
    assert (b == array).all()
    assert a.flags.c_contiguous
    assert b.flags.f_contiguous
    assert a.flags.writeable


def test_other_byte_orders_are_written_little(tmp_path):
    from kpp.io.container import Container

    path = tmp_path / "a.kpp"
    path.write_bytes(b"".join(pack(1, b"{}", [np.arange(300, dtype=">i4")], 0)))
    with open(path, "rb") as file:
        container = Container(file)
        assert container.entries[1].type == "<i4"
        assert container.array(1).tolist() == list(range(300))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2.5, "x\\"]}[{", null, true]}',
        "[]",
        '"\\u0041\\ud800"',
        "-0.0",
        "[[[[1]]]]",
        f"[{2**64 - 1},{-(2**63)}]",
    ],
)
def test_json_is_read_as_python_reads_it(text):
    assert load_json(text.encode(), 100) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 3}', "key 'a' stands twice"),
        ('[{"x": {"a": 1, "a": 1}}]', "key 'a' stands twice"),
        ("[" * 101 + "]" * 101, "nested 101 deep; at most 100"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested 101 deep; at most 100"),
        ("[NaN]", "has no NaN"),
        ("[-Infinity]", "has no -Infinity"),
        ("[1e400]", "1e400 is beyond double precision"),
        ("[" + "9" * 5000 + "]", "beyond 64 bits"),
        (f"[{2**64}]", "beyond 64 bits"),
        (f"[{-(2**63) - 1}]", "beyond 64 bits"),
        ("[1] 2", "Not valid JSON"),
        ("[é]", "Not valid JSON"),
        ("[" + "1," * 1000 + "1]", "1002 values; at most 1000"),
    ],
)
def test_json_is_read_strictly(text, message):
    with pytest.raises(FileFormatError, match=message):
        load_json(text.encode(), 1000)


def test_values_that_take_more_room_than_their_text(tmp_path):
    path = tmp_path / "values.kpp"
    path.write_bytes(b"".join(pack(1, b"[" + b"[]," * 5_000_000 + b"[]]", [], 9)))
    assert path.stat().st_size < 40_000
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="10000003 values; at most 500000"):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000  # the text, and a table of its brackets; not 600 MB of lists


def test_metadata_of_too_many_values(tmp_path):
    with pytest.raises(CannotSaveError, match="bytes of JSON"):
        save(random_forest(1), tmp_path / "m.kpp", metadata={"a": [0] * 600_000})
    assert list(tmp_path.iterdir()) == []
