"""`kpp serve` before it serves: what it refuses, and how."""

import socket
import sys

import pytest

from kpp.cli import main
from kpp.cli.serve import read_token
from kpp.serve.lanes import Lane
from kpp.serve.metrics import Metrics
from kpp.serve.requests import Guard
from kpp.serve.settings import TOKEN_VARIABLE, Settings
from kpp.tables.errors import UserError


@pytest.mark.parametrize("package", ["uvicorn", "fastapi"])
def test_the_missing_extra_is_named(monkeypatch, capsys, folder, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["serve", str(folder / "cls.kpp")]) == 2
    assert "pip install 'kpp[serve]'" in capsys.readouterr().err


def test_no_such_file(capsys, tmp_path):
    assert main(["serve", str(tmp_path / "no.kpp"), "--port", "0"]) == 2
    assert "no file" in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_file_that_is_no_model(capsys, tmp_path, workers):
    (tmp_path / "m.kpp").write_bytes(b"something else")
    asked = ["serve", str(tmp_path / "m.kpp"), "--port", "0", "--workers", workers]
    assert main(asked) == 2
    assert "m.kpp" in capsys.readouterr().err


def test_a_port_that_is_taken(capsys, folder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert main(["serve", str(folder / "cls.kpp"), "--port", port]) == 2
    assert "cannot be bound" in capsys.readouterr().err


def test_it_binds_to_this_machine_unless_told(folder):
    assert Settings(folder / "cls.kpp").host == "127.0.0.1"


def test_tokens(tmp_path, monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert read_token(None) is None
    monkeypatch.setenv(TOKEN_VARIABLE, "t" * 16)
    assert read_token(None) == "t" * 16
    path = tmp_path / "token"
    path.write_text("f" * 20 + "\n")
    assert read_token(path) == "f" * 20
    for wrong in ("", "short", "é" * 20, "a b\x00" * 8):
        path.write_text(wrong)
        with pytest.raises(UserError):
            read_token(path)
    with pytest.raises(UserError):
        read_token(tmp_path / "none")


def test_a_token_is_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr(
        "kpp.serve.requests.hmac.compare_digest", lambda a, b: compared.append((a, b)) or a == b
    )
    guard = Guard(None, "right-and-long-enough", Metrics())
    for given in (b"Bearer right-and-long-enough", b"Bearer wrong", None):
        headers = [] if given is None else [(b"authorization", given)]
        try:
            guard._check({"path": "/predict", "headers": headers})
            refused = False
        except Exception as error:
            refused = error.status == 401
        assert refused == (given != b"Bearer right-and-long-enough")
    assert len(compared) == 3


def test_counters_outlive_their_worker(tmp_path):
    """A sheet that nobody holds is taken over with its counts; gauges begin anew."""
    first, second = Metrics(str(tmp_path)), Metrics(str(tmp_path))
    first.request("/predict", 200, 0.1, 3, 10)
    second.request("/predict", 200, 0.1, 4, 10)
    second.inside("slow", 2)
    assert 'kpp_rows_total{path="/predict"} 7' in first.text({})
    assert "kpp_workers 2" in first.text({})
    # What the system does when a process is killed.
    import fcntl

    fcntl.flock(second._file[0], fcntl.LOCK_UN)
    third = Metrics(str(tmp_path))
    third.request("/predict", 200, 0.1, 5, 10)
    assert 'kpp_rows_total{path="/predict"} 12' in first.text({})
    assert 'kpp_questions_inside{lane="slow"} 0' in first.text({})
    assert "kpp_workers 2" in first.text({})


def test_a_lane_counts_threads_and_places():
    lane = Lane("quick", 2, 3)
    assert (lane.inside, lane.n_threads + lane.most_waiting) == (0, 5)
    lane.close()
