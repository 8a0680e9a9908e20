"""The files of deploy/: read line by line, and tried by nginx and systemd where these are there."""

import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import pytest
from serve.running import until
from serve.tables import as_json, raw_rows
from typer.main import get_command

from kpp import io
from kpp.cli.app import app

DEPLOY = Path(__file__).parents[2] / "deploy"
KNOWN = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "VOLUME", "HEALTHCHECK"}
KNOWN |= {"STOPSIGNAL", "ENTRYPOINT", "CMD"}


def options():
    return {o for p in get_command(app).commands["serve"].params for o in p.opts}


def test_the_container_file():
    text = (DEPLOY / "Containerfile").read_text()
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    steps = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    assert {name for name, _, _ in steps} <= KNOWN
    bases = [rest.split()[0] for name, _, rest in steps if name == "FROM"]
    assert all(re.fullmatch(r"docker\.io/library/python:3\.\d+-slim", base) for base in bases)
    names = [name for name, _, _ in steps]
    last = len(names) - 1 - names[::-1].index("FROM")
    users = [rest for name, _, rest in steps[last:] if name == "USER"]
    assert users == ["10001:10001"]  # a number, which is not root's
    given = {name: json.loads(rest) for name, _, rest in steps if name in ("ENTRYPOINT", "CMD")}
    asked = {word for word in given["CMD"] if word.startswith("--")}
    assert given["ENTRYPOINT"][-1] == "serve"
    assert asked <= options()
    copied = [
        rest.split()[:-1] for name, _, rest in steps if name == "COPY" and "--from" not in rest
    ]
    assert all((DEPLOY.parent / one).exists() for own in copied for one in own)


def test_the_unit(tmp_path):
    text = (DEPLOY / "kpp-serve.service").read_text()
    assert set(re.findall(r"--[a-z-]+", text)) <= options()
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    unit = tmp_path / "kpp-serve.service"
    unit.write_text(text.replace("/opt/kpp/bin/kpp", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    own = [line for line in done.stderr.splitlines() if "kpp-serve.service" in line]
    assert own == []


def test_nginx_agrees_with_the_defaults():
    text = (DEPLOY / "nginx.conf").read_text()
    assert text.count("{") == text.count("}")
    defaults = {p.name: p.default for p in get_command(app).commands["serve"].params}
    (size,) = re.findall(r"client_max_body_size (\d+)m", text)
    (body,) = re.findall(r"client_body_timeout (\d+)s", text)
    (answer,) = re.findall(r"proxy_read_timeout (\d+)s", text)
    assert int(size) * 2**20 == defaults["max_bytes"]
    assert int(body) == defaults["body_seconds"]
    assert int(answer) > defaults["seconds"]
    assert f"127.0.0.1:{defaults['port']}" in text


@pytest.mark.skipif(shutil.which("nginx") is None, reason="there is no nginx")
def test_behind_nginx(server, folder, tmp_path):
    """The file as it is but for addresses and certificate: nginx takes it, and answers by TLS."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate")
    pem, key = tmp_path / "model.pem", tmp_path / "model.key"
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    made += ["-subj", "/CN=model.example.org", "-keyout", str(key), "-out", str(pem)]
    subprocess.run(made, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = (DEPLOY / "nginx.conf").read_text()
    for old, new in {
        "server 127.0.0.1:8000": f"server {server.host}:{server.port}",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "/etc/ssl/model.pem": str(pem),
        "/etc/ssl/model.key": str(key),
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {tmp_path}/{kind};\n" for kind in kinds)
    whole = tmp_path / "whole.conf"
    around = f"daemon off;\npid {tmp_path}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{places}"
    whole.write_text(f"{around}{text}}}\n")
    command = ["nginx", "-p", str(tmp_path), "-e", str(tmp_path / "log"), "-c", str(whole)]
    tried = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr
    process = subprocess.Popen(command)
    trusted = ssl.create_default_context(cafile=pem)
    trusted.check_hostname = False

    def ask(method, path, body=None, **headers):
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusted, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def is_there():
        try:
            return ask("GET", "/health")[0] == 200
        except OSError:
            return False

    try:
        until(is_there)
        body = json.dumps(as_json(raw_rows(io.load(folder / "cls.kpp"), folder / "cls.csv", 2)))
        status, answer = ask("POST", "/predict", body, **{"Content-Type": "application/json"})
        assert (status, json.loads(answer)["n_rows"]) == (200, 2)
        assert ask("GET", "/metrics")[0] == 403
        # Before a byte of it is read.
        assert ask("POST", "/predict", None, **{"Content-Length": "99999999"})[0] == 413
    finally:
        process.terminate()
        process.wait(30)
