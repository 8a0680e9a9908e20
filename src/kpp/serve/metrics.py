"""Counters in Prometheus' text form, summed over all workers.

Every worker writes into a sheet of numbers of its own and reads those of all. The sheets are files
that are mapped into memory; a lock on its file says that a sheet is taken, and is given back even
by a worker that was killed, whose counts the next owner carries on.
"""

from __future__ import annotations

import mmap
import os
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from kpp._typing import FloatArray

PATHS = (
    *("/predict", "/interval", "/explain", "/rules", "/certify", "/model", "/health"),
    *("/metrics", "/report", "/openapi.json", "/", "other"),
)
STATUSES = (200, 400, 401, 404, 405, 406, 408, 409, 413, 415, 422, 431, 499, 500, 503, 504)
# Seconds; the last bucket has no end.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
RELOADS = ("done", "failed")
LANES = ("quick", "slow")
# Numbers that are of the worker that writes them, and end with it.
GAUGES = ("alive", "memory", *(f"inside {lane}" for lane in LANES))


def _places() -> dict[tuple[Any, ...], int]:
    keys: list[tuple[Any, ...]] = [("requests", p, s) for p in PATHS for s in (*STATUSES, 0)]
    keys += [("bucket", p, b) for p in PATHS for b in (*BUCKETS, "+Inf")]
    keys += [(name, p) for name in ("seconds", "rows", "bytes") for p in PATHS]
    keys += [("reloads", result) for result in RELOADS]
    keys += [(name,) for name in GAUGES]
    return {key: place for place, key in enumerate(keys)}


PLACES = _places()


class Metrics:
    r"""Counters of one worker, and the sums over all.

    Parameters
    ----------
    folder : str, optional
        Where several workers keep their sheets; a worker that is alone needs none.

    Examples
    --------
    >>> from kpp.serve.metrics import Metrics
    >>> metrics = Metrics()
    >>> metrics.request("/predict", 200, 0.003, 2, 40)
    >>> "kpp_rows_total{path=\"/predict\"} 2" in metrics.text({})
    True
    """

    def __init__(self, folder: str | None = None) -> None:
        self._lock, self.folder = Lock(), None if folder is None else Path(folder)
        self._file: Any = None
        self.sheet: FloatArray = np.zeros(len(PLACES)) if folder is None else self._taken()
        for name in GAUGES:
            self.sheet[PLACES[name,]] = 0.0
        self.sheet[PLACES["alive",]] = 1.0

    def _taken(self) -> FloatArray:
        """The first sheet that nobody has."""
        import fcntl

        assert self.folder is not None
        number = 0
        while True:
            path = self.folder / f"worker-{number}.sheet"
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                number += 1
                continue
            os.ftruncate(handle, 8 * len(PLACES))
            self._file = (handle, mmap.mmap(handle, 8 * len(PLACES)))
            return np.frombuffer(self._file[1], dtype=np.float64)

    def _sheets(self) -> list[FloatArray]:
        if self.folder is None:
            return [self.sheet]
        found = []
        for path in sorted(self.folder.glob("worker-*.sheet")):
            with suppress(OSError):
                data = path.read_bytes()
                if len(data) == 8 * len(PLACES):
                    found.append(np.frombuffer(data, dtype=np.float64))
        return found

    def request(self, path: str, status: int, seconds: float, n_rows: int, n_bytes: int) -> None:
        """Count a request that was answered."""
        path = path if path in PATHS else "other"
        with self._lock:
            self.sheet[PLACES["requests", path, status if status in STATUSES else 0]] += 1
            bucket = next((b for b in BUCKETS if seconds <= b), "+Inf")
            self.sheet[PLACES["bucket", path, bucket]] += 1
            self.sheet[PLACES["seconds", path]] += seconds
            self.sheet[PLACES["rows", path]] += n_rows
            self.sheet[PLACES["bytes", path]] += n_bytes

    def reload(self, result: str) -> None:
        """Count a reload: "done" or "failed"."""
        with self._lock:
            self.sheet[PLACES["reloads", result]] += 1

    def inside(self, lane: str, number: int) -> None:
        """Say how many questions a lane holds."""
        self.sheet[PLACES[f"inside {lane}",]] = number

    def text(self, model: dict[str, str]) -> str:
        """All numbers, in Prometheus' text form.

        Parameters
        ----------
        model : dict
            Labels of the model of the worker that answers.

        Returns
        -------
        text : str
        """
        self.sheet[PLACES["memory",]] = resident_bytes()
        # Gauges of a worker that was killed are 0 once another has its place.
        total = np.sum(self._sheets(), axis=0)
        lines: list[str] = []

        def family(name: str, kind: str, words: str) -> None:
            lines.extend((f"# HELP {name} {words}", f"# TYPE {name} {kind}"))

        def sample(name: str, value: float, /, **labels: Any) -> None:
            inner = ",".join(f'{k}="{_escaped(str(v))}"' for k, v in labels.items())
            lines.append(f"{name}{{{inner}}} {value:.17g}" if inner else f"{name} {value:.17g}")

        family("kpp_requests_total", "counter", "Requests, by path and status; 0 is any other.")
        for p in PATHS:
            for s in (*STATUSES, 0):
                if value := total[PLACES["requests", p, s]]:
                    sample("kpp_requests_total", value, path=p, status=s)
        family("kpp_request_seconds", "histogram", "Time from the head of a request to its answer.")
        for p in PATHS:
            counts = np.cumsum([total[PLACES["bucket", p, b]] for b in (*BUCKETS, "+Inf")])
            if not counts[-1]:
                continue
            for b, value in zip((*BUCKETS, "+Inf"), counts, strict=True):
                sample("kpp_request_seconds_bucket", value, path=p, le=b)
            sample("kpp_request_seconds_sum", total[PLACES["seconds", p]], path=p)
            sample("kpp_request_seconds_count", counts[-1], path=p)
        for name, words in (("rows", "Rows answered."), ("bytes", "Bytes of bodies.")):
            family(f"kpp_{name}_total", "counter", words)
            for p in PATHS:
                if value := total[PLACES[name, p]]:
                    sample(f"kpp_{name}_total", value, path=p)
        family("kpp_model_reloads_total", "counter", "Reloads of the model, once for each worker.")
        for result in RELOADS:
            sample("kpp_model_reloads_total", total[PLACES["reloads", result]], result=result)
        family("kpp_questions_inside", "gauge", "Questions that wait or are being answered.")
        for lane in LANES:
            sample("kpp_questions_inside", total[PLACES[f"inside {lane}",]], lane=lane)
        family("kpp_workers", "gauge", "Workers that have begun.")
        sample("kpp_workers", total[PLACES["alive",]])
        family("kpp_resident_bytes", "gauge", "Memory of the workers, as each last knew it.")
        sample("kpp_resident_bytes", total[PLACES["memory",]])
        family("kpp_model_info", "gauge", "The model of the worker that answered this.")
        sample("kpp_model_info", 1, **model)
        return "\n".join(lines) + "\n"

    def close(self) -> None:
        """Give the sheet back; the counts stay."""
        for name in GAUGES:
            self.sheet[PLACES[name,]] = 0.0


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resident_bytes() -> float:
    """Memory of this process, 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, AttributeError):
        return 0.0


def now() -> float:
    """A clock for durations."""
    return time.perf_counter()
