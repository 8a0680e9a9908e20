"""Several workers: one that is killed, models that change, a stop that waits; and the token."""

import http.client
import json
import os
import signal
import socket

import pytest
from serve.running import load, serving, until
from serve.tables import as_json, raw_rows

from kpp import io

TOKEN = "a-token-of-some-length"
posix = pytest.mark.skipif(os.name == "nt", reason="signals are sent in another way on Windows")
pytestmark = posix


@pytest.fixture(scope="module")
def body(folder):
    return as_json(raw_rows(io.load(folder / "cls.kpp"), folder / "cls.csv", 2))


@pytest.fixture(scope="module")
def pair(folder, tmp_path_factory):
    """Two workers, a token, and a report."""
    place = tmp_path_factory.mktemp("pair")
    model, page = place / "m.kpp", place / "page.html"
    model.write_bytes((folder / "cls.kpp").read_bytes())
    page.write_text("<title>the report</title>")
    arguments = ["--workers", 2, "--report", page]
    with serving(model, place, *arguments, token=TOKEN) as running:
        running.model = model
        until(lambda: len(running.workers()) == 2, 240)
        yield running


@pytest.mark.parametrize("path", ["/model", "/openapi.json", "/metrics", "/report", "/predict"])
@pytest.mark.parametrize(
    "given", [None, "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN]
)
def test_without_the_token(pair, path, given):
    kept, pair.token = pair.token, None
    try:
        headers = {} if given is None else {"authorization": given}
        answer = pair.ask("POST" if path == "/predict" else "GET", path, **headers)
    finally:
        pair.token = kept
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_what_is_open_to_everybody(pair):
    kept, pair.token = pair.token, None
    try:
        health, page = pair.ask("GET", "/health"), pair.ask("GET", "/")
    finally:
        pair.token = kept
    assert health.data["status"] == "ok"
    assert b"colour" not in page.body  # nothing of the model
    assert pair.ask("GET", "/report").body == b"<title>the report</title>"


def metric(server, name):
    lines = server.ask("GET", "/metrics").body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def test_counters_are_of_all_workers(pair, body):
    before = metric(pair, 'kpp_rows_total{path="/predict"}')
    for _ in range(12):
        assert pair.post("/predict", body).status == 200
    assert metric(pair, 'kpp_rows_total{path="/predict"}') == before + 24
    assert metric(pair, "kpp_workers") == 2


def test_a_new_model_without_a_dropped_request(pair, body, folder):
    first = pair.post("/predict", body).data["model"]
    with load(pair, body) as clients:
        until(lambda: all(len(client.statuses) > 5 for client in clients))
        beside = pair.model.with_suffix(".new")
        beside.write_bytes((folder / "other.kpp").read_bytes())
        os.replace(beside, pair.model)
        pair.process.send_signal(signal.SIGHUP)
        until(lambda: metric(pair, 'kpp_model_reloads_total{result="done"}') == 2)
        seen = [len(client.statuses) for client in clients]
        until(lambda: all(len(c.statuses) > n + 5 for c, n in zip(clients, seen, strict=True)))
    assert {status for client in clients for status in client.statuses} == {200}
    assert sum(client.broken for client in clients) == 0
    for client in clients:
        names = list(dict.fromkeys(client.models))
        assert names[0] == first
        assert len(names) == 2
        assert client.models == sorted(client.models, key=names.index)  # never back
    assert pair.ask("GET", "/model").data["trees"] == 6


def test_a_file_that_is_no_model_changes_nothing(pair, body):
    before = pair.post("/predict", body).data["model"]
    whole = pair.model.read_bytes()
    pair.model.write_bytes(whole[: len(whole) // 2])
    pair.process.send_signal(signal.SIGHUP)
    until(lambda: metric(pair, 'kpp_model_reloads_total{result="failed"}') == 2)
    assert pair.post("/predict", body).data["model"] == before
    pair.model.write_bytes(whole)


def test_a_worker_that_is_killed_under_load(pair, body):
    """Only what it was answering is lost; the other goes on, and a new one takes its place."""
    before = metric(pair, 'kpp_requests_total{path="/predict",status="200"}')
    with load(pair, body) as clients:
        until(lambda: all(len(client.statuses) > 5 for client in clients))
        os.kill(pair.workers()[-1], signal.SIGKILL)
        seen = [len(client.statuses) for client in clients]
        # All clients are answered again before the new worker has begun.
        until(lambda: all(len(c.statuses) > n + 5 for c, n in zip(clients, seen, strict=True)))
    until(lambda: len(pair.workers()) == 3, 240)
    assert {status for client in clients for status in client.statuses} == {200}
    # A connection has one request under way: each client can have lost one, not more.
    assert all(client.broken <= 1 for client in clients)
    assert pair.process.poll() is None
    until(lambda: metric(pair, "kpp_workers") == 2)
    # What the killed one had counted is not lost with it.
    answered = sum(len(client.statuses) for client in clients)
    after = metric(pair, 'kpp_requests_total{path="/predict",status="200"}')
    assert after >= before + answered


def test_a_stop_finishes_what_is_under_way(pair, body):
    """The last test here: it ends the service."""
    whole = json.dumps(body).encode()
    head = (
        "POST /predict HTTP/1.1\r\nHost: model\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(whole)}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Expect: 100-continue\r\n\r\n"
    )
    with socket.create_connection((pair.host, pair.port), timeout=120) as under_way:
        under_way.sendall(head.encode())
        # A worker says so when it begins to read the body: from here on it is under way.
        assert under_way.recv(1000).startswith(b"HTTP/1.1 100 ")
        under_way.sendall(whole[:9])
        pair.process.send_signal(signal.SIGTERM)
        until(lambda: events(pair).count("stopped") == 1)  # the one that has nothing to do
        under_way.sendall(whole[9:])
        answer = http.client.HTTPResponse(under_way)
        answer.begin()
        assert answer.status == 200
        assert json.loads(answer.read())["n_rows"] == 2
    assert pair.process.wait(60) == 0
    assert events(pair).count("stopped") == 2
    with pytest.raises(OSError):
        pair.ask("GET", "/health", timeout=5)


def events(server):
    return [line["event"] for line in server.log()]
