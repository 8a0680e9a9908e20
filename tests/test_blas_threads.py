"""The same bits whatever number of threads BLAS has, and whoever else limits them."""

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kpp import KPPRegressor, _parallel
from kpp._parallel import one_blas_thread

HERE = Path(__file__).parent


def hashes(part, n_threads):
    limits = {f"{name}_NUM_THREADS": str(n_threads) for name in ("OPENBLAS", "MKL", "OMP")}
    command = [sys.executable, "-W", "ignore", str(HERE / "blas_threads.py"), part]
    ran = subprocess.run(
        command, env=os.environ | limits, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "part", [pytest.param("small", marks=SLOW), "middle", pytest.param("large", marks=SLOW)]
)
def test_the_number_of_blas_threads_changes_no_bit(part):
    one, two = hashes(part, 1), hashes(part, 2)
    assert len(one) >= 5
    changed = [name for name in one if one[name] != two[name]]
    assert not changed


def blas_threads():
    return {lib["filepath"]: lib["num_threads"] for lib in threadpool_info() if is_blas(lib)}


def is_blas(lib):
    return lib["user_api"] == "blas"


@pytest.fixture
def two_threads():
    """Two threads, set by nobody who is still there."""
    before = threadpool_limits(2, user_api="blas")
    with threadpool_limits(None):  # a newer threadpoolctl gives up control here
        pass
    if set(blas_threads().values()) != {2}:
        pytest.skip("BLAS has no two threads here")
    yield
    before.restore_original_limits()
    with threadpool_limits(None):
        pass


def test_one_thread_within_and_the_old_number_after(two_threads):
    with one_blas_thread():
        assert set(blas_threads().values()) == {1}
        with one_blas_thread():
            assert set(blas_threads().values()) == {1}
        assert set(blas_threads().values()) == {1}
    assert set(blas_threads().values()) == {2}


def test_also_after_an_error(two_threads):
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert set(blas_threads().values()) == {2}


def test_threads_that_overlap_do_not_undo_each_other(two_threads):
    """The first to come is the first to go; the second is still at work, on one thread."""
    second_is_in, first_is_out, seen = threading.Event(), threading.Event(), []

    def second():
        with one_blas_thread():
            second_is_in.set()
            assert first_is_out.wait(60)
            seen.append(set(blas_threads().values()))

    thread = threading.Thread(target=second)
    with one_blas_thread():
        thread.start()
        assert second_is_in.wait(60)
    first_is_out.set()
    thread.join()
    assert seen == [{1}]
    assert set(blas_threads().values()) == {2}


def test_within_a_limit_of_the_callers(two_threads):
    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            assert set(blas_threads().values()) == {1}
        assert set(blas_threads().values()) == {2}


def test_many_threads_at_a_time(two_threads):
    seen = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            with one_blas_thread():
                time.sleep(rng.uniform(0, 1e-3))
                seen.append(set(blas_threads().values()) == {1})
            time.sleep(rng.uniform(0, 1e-3))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 200
    assert all(seen)
    assert set(blas_threads().values()) == {2}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_is_not_locked_out(two_threads):
    _parallel._one_thread.lock.acquire()  # as by another thread at that moment
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads
            child = os.fork()
        if child == 0:
            with one_blas_thread():
                os._exit(0 if set(blas_threads().values()) == {1} else 1)
    finally:
        _parallel._one_thread.lock.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_fit_and_a_prediction_leave_the_limit_as_it_was(two_threads):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = KPPRegressor("extra-trees", n_estimators=3, random_state=0).fit(X, X[:, 0])
    model.predict(X)
    assert set(blas_threads().values()) == {2}
    # A prediction adds leaf values and needs no BLAS: it never touches the limit.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kpp._parallel._one_thread.take", lambda: pytest.fail("took the limit"))
        model.predict(X)
        model.at(X)
