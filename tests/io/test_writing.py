"""Writing is all or nothing."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from zoo import random_forest

from kpp import _atomic
from kpp.io import load
from kpp.io.saving import save
from kpp.reports.page import write as write_page
from kpp.tables.errors import UserError
from kpp.tables.writing import write_text

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

    monkeypatch.setattr(_atomic.os, failing, fail)
    with pytest.raises(OSError, match="no space left"):
        save(random_forest(2), old)
    assert old.read_bytes() == before
    assert list(old.parent.iterdir()) == [old]


def test_an_interruption_leaves_the_old_file_and_no_other(old, monkeypatch):
    before = old.read_bytes()

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(_atomic.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(random_forest(2), old)
    assert old.read_bytes() == before
    assert list(old.parent.iterdir()) == [old]


STOPS = {
    "while writing": """
def half(beside):
    beside.write_bytes(b"half of a fi")
    print("now", flush=True)
    time.sleep(60)
_atomic.write_file(path, half)
""",
    "before the disk has it": """
def stop(descriptor):
    print("now", flush=True)
    time.sleep(60)
_atomic.os.fsync = stop
saving.save(Forest.from_trees([Tree([-1], [-1], [0], [0.0])], n_features=1), path)
""",
    "before the new name": """
def stop(source, target):
    print("now", flush=True)
    time.sleep(60)
_atomic.os.replace = stop
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
from kpp import _atomic
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


# Models, reports and tables are written by the same rules.
WRITERS = {
    "model": lambda path: save(random_forest(2), path),
    "page": lambda path: write_page("<p>new</p>", path),
    "table": lambda path: write_text("new", path),
}
writers = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@posix
@writers
def test_permissions_are_those_of_any_new_file(write, tmp_path):
    umask = os.umask(0o027)
    try:
        path = tmp_path / "new"
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    finally:
        os.umask(umask)


@posix
@writers
@pytest.mark.parametrize("mode", [0o600, 0o604, 0o666])
def test_an_existing_file_keeps_its_permissions(write, mode, tmp_path, monkeypatch):
    path = tmp_path / "old"
    path.write_text("old")
    os.chmod(path, mode)
    while_writing, replace = [], os.replace

    def look(source, target):
        while_writing.append(stat.S_IMODE(os.stat(source).st_mode))
        replace(source, target)

    monkeypatch.setattr(_atomic.os, "replace", look)
    write(path)
    assert path.read_bytes() != b"old"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert while_writing == [mode]


@posix
def test_nobody_reads_a_secret_while_it_is_written(tmp_path):
    path = tmp_path / "old"
    path.write_text("old")
    os.chmod(path, 0o600)
    seen = []
    _atomic.write_file(path, lambda beside: seen.append(stat.S_IMODE(beside.stat().st_mode)))
    assert seen == [0o600]


@posix
@writers
def test_a_link_stays_a_link(write, tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write(link)
    assert link.is_symlink()
    assert target.read_bytes() != b"old"
    assert list(target.parent.iterdir()) == [target]


@posix
@pytest.mark.parametrize("name", ["page", "table"])
def test_a_pipe_is_written_into(name, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        WRITERS[name](pipe)
        assert "new" in reader.stdout.read()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


@posix
def test_a_pipe_is_no_place_for_a_model(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/null", "/dev/stdout"):
        with pytest.raises(OSError, match="not a regular file"):
            save(random_forest(2), path)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@posix
def test_standard_output_goes_on_where_it_was(tmp_path):
    names = [n for n in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1") if os.path.exists(n)]
    assert names
    code = f"""
from pathlib import Path
from kpp.tables.errors import UserError
from kpp.tables.writing import write_text
for name in {names}:
    print("before", name)
    write_text("text\\n", Path(name))
    print("after")
"""
    whole = tmp_path / "redirected"
    with open(whole, "w") as file:
        file.write("first\n")
        file.flush()
        before = os.fstat(file.fileno()).st_ino
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    written = "".join(f"before {name}\ntext\nafter\n" for name in names)
    assert whole.read_text() == "first\n" + written
    assert whole.stat().st_ino == before
    assert list(tmp_path.iterdir()) == [whole]


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


@writers
def test_what_may_not_be_written_is_left_alone(write, tmp_path, monkeypatch):
    path = tmp_path / "old"
    path.write_text("old")
    monkeypatch.setattr(_atomic.os, "access", lambda *_: False)  # as for anyone but root
    with pytest.raises((PermissionError, UserError), match=os.strerror(errno.EACCES)):
        write(path)
    assert path.read_text() == "old"
