"""A service in a process of its own, and clients of it."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

START_SECONDS = 240


class Server:
    """`kpp serve` as anybody would start it; `ask` opens a connection for each request."""

    def __init__(self, process, log, host, port, token=None):
        self.process, self.log_file, self.host, self.port = process, log, host, port
        self.token = token

    @property
    def address(self):
        return f"http://{self.host}:{self.port}"

    def log(self):
        """Lines of the log, which all are JSON."""
        return [json.loads(line) for line in self.log_file.read_text().splitlines()]

    def headers(self):
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def ask(self, method, path, body=None, timeout=120, **headers):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            given = self.headers() | {k.replace("_", "-"): v for k, v in headers.items()}
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def post(self, path, data, **headers):
        body = json.dumps(data).encode()
        return self.ask("POST", path, body, content_type="application/json", **headers)

    def workers(self):
        """Ids of the processes that have begun to answer, the last ones last."""
        return [line["worker"] for line in self.log() if line["event"] == "started"]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers.items()}

    @property
    def data(self):
        return json.loads(self.body)


@contextmanager
def serving(model, folder, *arguments, token=None):
    """Start a service on a free port, and end it."""
    log = folder / "log"
    environment = os.environ | ({} if token is None else {"KPP_SERVE_TOKEN": token})
    command = [sys.executable, "-m", "kpp.cli", "serve", str(model), "--port", "0"]
    with open(log, "w") as err:
        process = subprocess.Popen(
            [*command, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            env=environment,
        )
    try:
        first = process.stdout.readline()
        found = re.search(r"http://\S+", first)
        assert found, log.read_text()
        parts = urlsplit(found[0])
        server = Server(process, log, parts.hostname, parts.port, token)
        until(lambda: answers(server), START_SECONDS)
        yield server
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        process.stdout.close()
        process.wait()


def answers(server):
    if server.process.poll() is not None:
        raise AssertionError(server.log_file.read_text())
    try:
        return server.ask("GET", "/health", timeout=5).status == 200
    except OSError:
        return False


def until(condition, seconds=60):
    """Wait until something holds; how long it takes is the machine's affair."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


class Load(threading.Thread):
    """Asks one question after the other over connections that stay open, until it is stopped.

    A connection that breaks is opened again, and counted; what a server answers is, too.
    """

    def __init__(self, server, body):
        super().__init__(daemon=True)
        self.server, self.body = server, json.dumps(body).encode()
        self.statuses, self.models, self.broken = [], [], 0
        self.ended = threading.Event()

    def run(self):
        connection = None
        headers = {"Content-Type": "application/json", **self.server.headers()}
        while not self.ended.is_set():
            try:
                if connection is None:
                    connection = http.client.HTTPConnection(
                        self.server.host, self.server.port, timeout=60
                    )
                connection.request("POST", "/predict", self.body, headers)
                answer = connection.getresponse()
                answer.read()
                self.statuses.append(answer.status)
                self.models.append(answer.headers["x-kpp-model"])
            except (OSError, http.client.HTTPException):
                self.broken += 1
                connection.close()
                connection = None
            time.sleep(0.01)
        if connection is not None:
            connection.close()

    def stop(self):
        self.ended.set()
        self.join(60)


@contextmanager
def load(server, body, n_clients=4):
    clients = [Load(server, body) for _ in range(n_clients)]
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.stop()
