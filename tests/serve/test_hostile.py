"""Bodies that nobody means well with, limits, and what the log says of them."""

import io as streams
import json
import socket
import threading
import time
from contextlib import suppress

import pyarrow as pa
import pytest
from serve.running import until
from serve.tables import as_json, raw_rows

from kpp import io

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def frame(folder):
    return raw_rows(io.load(folder / "cls.kpp"), folder / "cls.csv")


@pytest.fixture(scope="module")
def row(frame):
    return as_json(frame.iloc[[1]])["rows"][0]


def stream_of(columns):
    sink = streams.BytesIO()
    table = pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_all_errors_of_a_body_at_once(server, row):
    rows = [
        row,
        row | {"size": "big", "colour": 3},
        {k: v for k, v in row.items() if k != "city"} | {"town": "x"},
        row | {"when": "31.01.2020"},
        row | {"size": 1e39, "flag": [1]},
        7,
        ["too", "short"],
    ]
    answer = server.post("/predict", {"rows": rows[:3] + rows[4:5]})
    assert answer.status == 422
    found = [(e["row"], e.get("column")) for e in answer.data["errors"]]
    assert sorted(found, key=str) == sorted(
        [(1, "size"), (1, "colour"), (2, "city"), (2, None), (3, "size"), (3, "flag")], key=str
    )
    assert answer.data["n_errors"] == 6
    assert "big" not in answer.body.decode()
    answer = server.post("/predict", {"rows": rows})
    assert [e["row"] for e in answer.data["errors"] if "column" not in e] == [2, 5, 6]
    answer = server.post("/predict", {"rows": [rows[3], row]})
    assert [(e["row"], e["column"]) for e in answer.data["errors"]] == [(0, "when")]


def test_all_errors_of_a_table_at_once(server, frame):
    bad = frame.astype(object).iloc[:4].copy()
    bad.loc[1, "size"], bad.loc[3, "flag"] = "big", "perhaps"
    answer = server.ask("POST", "/predict", bad.to_csv(index=False), content_type="text/csv")
    assert answer.status == 422
    assert {(1, "size"), (3, "flag")} <= {(e["row"], e["column"]) for e in answer.data["errors"]}
    other = bad.rename(columns={"city": "town"}).drop(columns="size")
    answer = server.ask("POST", "/predict", other.to_csv(index=False), content_type="text/csv")
    assert {e.get("column") for e in answer.data["errors"]} == {"city", "size", None}


DEEP = 100_000
BODIES = {
    "empty": (JSON, b"", 400),
    "cut off": (JSON, b'{"rows": [{"size": 1.', 400),
    "no JSON": (JSON, b"size=1&colour=red", 400),
    "NaN": (JSON, b'{"rows": [[NaN, "red", "x", null, "y", 1]]}', 400),
    "a key twice": (JSON, b'{"rows": [], "rows": []}', 400),
    "deep lists": (JSON, b"[" * DEEP + b"]" * DEEP, 400),
    "deep records": (JSON, b'{"rows":' * 20_000 + b"1" + b"}" * 20_000, 400),
    "deep in a cell": (JSON, b'{"rows": [[' + b"[" * 900 + b"]" * 900 + b"]]}", 422),
    "no UTF-8": (JSON, b'{"rows": ["\xff\xfe"]}', 400),
    "half a character": (
        JSON,
        b'{"rows": [[1, "\\ud800", "x", null, "y", 1]]}',
        422,
    ),
    "a long integer": (JSON, b'{"rows": [[' + b"9" * 100_000 + b', "a", "x", null, "y", 1]]}', 422),
    "a huge exponent": (JSON, b'{"rows": [[1e999999, "a", "x", null, "y", 1]]}', 422),
    "no rows": (JSON, b'{"rows": []}', 422),
    "not a list": (JSON, b'{"rows": {}}', 422),
    "a list": (JSON, b"[]", 422),
    "too many rows": (JSON, b'{"rows": [' + b"1," * 2_000 + b"1]}", 422),
    "a long text": (
        JSON,
        json.dumps({"rows": [[1, "a", "x", None, "t" * 10_001, 1]]}).encode(),
        422,
    ),
    "binary CSV": ("text/csv", b"\x00\x01\x02", 400),
    "ragged CSV": ("text/csv", b"a,b\n1,2,3\n1\n", 422),
    "open quote": ("text/csv", b'size,colour\n"1,2\n', 400),
    "gzip as CSV": ("text/csv", b"\x1f\x8b\x08\x00rest", 400),
    "no Arrow": (ARROW, b"\xff\xff\xff\xff\x00\x00\x00\x7fgarbage", 400),
    "Arrow of nothing": (ARROW, b"", 400),
    "other columns": (ARROW, stream_of({"x": [1]}), 422),
    "another type": ("application/xml", b"<a/>", 415),
    "pickle": ("application/octet-stream", b"\x80\x04.", 415),
}


@pytest.mark.parametrize("kind", BODIES)
def test_hostile_bodies(server, kind):
    content_type, body, status = BODIES[kind]
    answer = server.ask("POST", "/predict", body, content_type=content_type)
    assert answer.status == status, answer.body[:300]
    assert answer.data["error"]
    assert server.ask("GET", "/health").status == 200


def test_every_cut_of_an_arrow_stream(server, frame):
    table = pa.Table.from_pandas(frame.iloc[:3], preserve_index=False)
    sink = streams.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    whole = sink.getvalue()
    assert server.ask("POST", "/predict", whole, content_type=ARROW).status == 200
    for end in range(0, len(whole) - 8, 97):
        answer = server.ask("POST", "/predict", whole[:end], content_type=ARROW)
        assert answer.status in (400, 422)
    for at in range(8, len(whole), 61):
        changed = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
        answer = server.ask("POST", "/predict", changed, content_type=ARROW)
        assert answer.status in (200, 400, 413, 422)


def test_a_packed_arrow_stream_is_refused(server, frame):
    """A few bytes could stand for any number of them."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    sink = streams.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    answer = server.ask("POST", "/predict", sink.getvalue(), content_type=ARROW)
    assert answer.status == 415


def test_a_packed_body_is_refused(server):
    answer = server.ask("POST", "/predict", b"\x1f\x8b", content_type=JSON, content_encoding="gzip")
    assert answer.status == 415


@pytest.mark.parametrize(
    ("path", "n_errors"),
    [
        ("/rules?top=0", 1),
        ("/rules?top=nan&size=3", 2),
        ("/rules?top=1&top=2", 1),
        ("/interval?coverage=1", 1),
        ("/interval?coverage=%31e-1_0", 1),
        ("/explain?output=violet", 1),
        ("/certify?raw=perhaps&epsilon=3", 2),
    ],
)
def test_parameters(server, row, path, n_errors):
    answer = server.post(path, {"rows": [row]})
    assert answer.status == 422
    assert answer.data["n_errors"] == n_errors


def talk(server, *parts, wait=0.0):
    """Send bytes, part by part; what comes back until the end."""
    with socket.create_connection((server.host, server.port), timeout=60) as line:
        found = b""
        with suppress(ConnectionError):  # the service need not wait for all of it
            for part in parts:
                line.sendall(part)
                time.sleep(wait)
        with suppress(ConnectionError):
            while chunk := line.recv(65536):
                found += chunk
        return found


HEAD = (
    b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
)


def test_a_body_that_is_declared_too_long(server):
    found = talk(server, HEAD + b"Content-Length: 300001\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 413")


def test_a_body_that_never_ends(server):
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    found = talk(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 6)
    assert found.startswith(b"HTTP/1.1 413")


def test_a_body_that_comes_slowly(server):
    begun = time.monotonic()
    found = talk(server, HEAD + b"Content-Length: 1000\r\n\r\n", *[b" "] * 6, wait=0.4)
    assert found.startswith(b"HTTP/1.1 408")
    assert time.monotonic() - begun >= 1.5


def test_a_head_that_comes_slowly(server):
    assert talk(server, b"POST /pre", b"dict ", b"HTTP", wait=0.2) == b""


def test_who_leaves_before_the_end(server):
    with socket.create_connection((server.host, server.port)) as line:
        line.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
    until(lambda: any(line.get("status") == 499 for line in server.log()))


@pytest.mark.parametrize("head", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"A" * 100_000])
def test_what_is_no_http(server, head):
    assert talk(server, head + b"\r\n\r\n")[:12] in (b"HTTP/1.1 400", b"")
    assert server.ask("GET", "/health").status == 200


def test_other_methods_and_paths(server):
    assert server.ask("DELETE", "/predict").status == 405
    assert server.ask("GET", "/predict").headers["allow"] == "POST"
    assert server.ask("GET", "/no/such/page").status == 404
    assert server.ask("GET", "/report").status == 404
    for path in ("/docs", "/redoc"):  # they would load scripts from elsewhere
        assert server.ask("GET", path).status == 404


def slow_rows(frame, n_rows):
    rows = as_json(frame)["rows"]
    return {"rows": (rows * (n_rows // len(rows) + 1))[:n_rows]}


def test_a_slow_explanation_does_not_block_predictions_and_ends_in_time(server, frame, row):
    """Rules of 1,400 rows take longer than the 4 s of this service."""
    body, found = slow_rows(frame, 1_400), []
    slow = threading.Thread(target=lambda: found.append(server.post("/rules?top=1000", body)))
    slow.start()
    until(lambda: b'"slow"} 1' in server.ask("GET", "/metrics").body)
    n_answered = 0
    while not found:
        assert server.post("/predict", {"rows": [row]}).status == 200
        n_answered += 1
    slow.join()
    assert n_answered > 20
    assert found[0].status == 504
    # The thread is free again, since it looks at the clock between rows.
    until(lambda: b'"slow"} 0' in server.ask("GET", "/metrics").body)
    assert server.post("/rules", {"rows": [row]}).status == 200


def test_more_slow_questions_than_may_wait(server, frame, row):
    body, found = slow_rows(frame, 300), []
    clients = [
        threading.Thread(target=lambda: found.append(server.post("/rules?top=1000", body)))
        for _ in range(6)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    statuses = sorted(answer.status for answer in found)
    assert statuses.count(503) >= 3
    assert set(statuses) <= {200, 503, 504}
    assert all("retry-after" in a.headers for a in found if a.status == 503)
    assert server.post("/predict", {"rows": [row]}).status == 200


def test_the_log_holds_no_values(server, row):
    marks = ["zqxmarker", "987654.25"]
    marked = row | {"city": marks[0], "size": float(marks[1])}
    server.post("/predict", {"rows": [marked]})
    server.post("/explain", {"rows": [marked | {"flag": marks[0]}]})
    server.post(f"/rules?{marks[0]}={marks[0]}", {"rows": [marked]})
    server.ask("GET", f"/{marks[0]}")
    server.ask(marks[0].upper(), "/predict")
    server.ask("POST", "/predict", marks[0].encode(), content_type=JSON)
    n_before = len(server.log())
    server.ask("GET", "/health")
    until(lambda: len(server.log()) > n_before)
    text = server.log_file.read_text().lower()
    assert not any(mark in text for mark in marks)
    (last,) = [line for line in server.log() if line["event"] == "request"][-1:]
    assert {"time", "level", "worker", "id", "path", "status", "ms", "rows", "bytes"} <= set(last)


def test_nothing_went_wrong_in_all_this(server):
    """No test of this file made the service fail, whatever it was sent."""
    assert [line for line in server.log() if line.get("status") == 500] == []
