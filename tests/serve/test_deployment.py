"""The files of deploy/: read line by line, since no engine builds them here."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

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
