"""Writing is all or nothing."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from zoo import random_forest

from kpp.io import load, saving
from kpp.io.saving import save

posix = pytest.mark.skipif(os.name != "posix", reason="signals and permissions of POSIX")


@pytest.fixture
def old(tmp_path):
    return save(random_forest(1), tmp_path / "m.kpp")


def test_paths_of_any_type(tmp_path):
    for path in (tmp_path / "a.kpp", str(tmp_path / "b.kpp")):
        assert load(save(random_forest(1), path)).n_trees == 5
    assert isinstance(save(random_forest(1), str(tmp_path / "b.kpp")), Path)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_an_error_leaves_the_old_file_and_no_other(old, failing, monkeypatch):
    before = old.read_bytes()

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr(saving.os, failing, fail)
    with pytest.raises(OSError, match="no space left"):
        save(random_forest(2), old)
    assert old.read_bytes() == before
    assert list(old.parent.iterdir()) == [old]


def test_an_interruption_leaves_the_old_file_and_no_other(old, monkeypatch):
    before = old.read_bytes()

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(saving.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(random_forest(2), old)
    assert old.read_bytes() == before
    assert list(old.parent.iterdir()) == [old]


STOPS = {
    "while writing": """
def chunks():
    yield b"half of a fi"
    print("now", flush=True)
    time.sleep(60)
saving._write(path, chunks())
""",
    "before the disk has it": """
def stop(descriptor):
    print("now", flush=True)
    time.sleep(60)
saving.os.fsync = stop
saving.save(Forest.from_trees([Tree([-1], [-1], [0], [0.0])], n_features=1), path)
""",
    "before the new name": """
def stop(source, target):
    print("now", flush=True)
    time.sleep(60)
saving.os.replace = stop
saving.save(Forest.from_trees([Tree([-1], [-1], [0], [0.0])], n_features=1), path)
""",
}


@posix
@pytest.mark.parametrize("when", STOPS)
def test_a_kill_leaves_the_old_file(old, when):
    before = old.read_bytes()
    code = f"""
import time
from pathlib import Path
from kpp.forest import Forest, Tree
from kpp.io import saving
path = Path({str(old)!r})
{STOPS[when]}
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "now"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert old.read_bytes() == before
    assert load(old).n_trees == 5
    save(random_forest(2), old)  # what was left behind is in nobody's way
    assert load(old).n_trees == 5
    assert old.read_bytes() != before


@posix
def test_permissions_are_those_of_any_new_file(tmp_path, old):
    umask = os.umask(0o027)
    try:
        path = save(random_forest(1), tmp_path / "new.kpp")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        os.chmod(old, 0o604)
        save(random_forest(1), old)
        assert stat.S_IMODE(old.stat().st_mode) == 0o604
    finally:
        os.umask(umask)


@posix
def test_a_link_stays_a_link(tmp_path, old):
    link = tmp_path / "link.kpp"
    link.symlink_to(old)
    before = old.read_bytes()
    save(random_forest(2), link)
    assert link.is_symlink()
    assert old.read_bytes() != before


def test_places_where_no_file_can_be(tmp_path):
    with pytest.raises(FileNotFoundError):
        save(random_forest(1), tmp_path / "none" / "m.kpp")
    with pytest.raises(OSError, match="not a regular file"):
        save(random_forest(1), tmp_path)
    assert list(tmp_path.iterdir()) == []


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anything")
def test_a_file_that_may_not_be_written(old):
    os.chmod(old, 0o444)
    with pytest.raises(PermissionError):
        save(random_forest(2), old)
