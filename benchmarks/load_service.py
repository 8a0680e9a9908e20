"""A service under load: latency at several numbers of clients, and its memory in a soak.

Run ``python benchmarks/load_service.py --out benchmarks/results``. It fits a model, starts
``kpp serve`` as a process of its own, and asks for predictions of a single row over connections
that stay open, from this process. Every client waits for its answer before it asks again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from timing import describe, versions, write

from kpp.cli import main as kpp_command

CLIENTS = (1, 10, 50)
# The memory of a service is flat if the second half of a soak adds at most so much to it.
FLAT_SHARE = 0.02


class Service:
    """`kpp serve` on a free port; a context."""

    def __init__(self, model: Path, log: Path, workers: int) -> None:
        command = [sys.executable, "-m", "kpp.cli", "serve", str(model), "--port", "0"]
        with open(log, "w") as err:
            self.process = subprocess.Popen(
                [*command, "--workers", str(workers)], stdout=subprocess.PIPE, stderr=err, text=True
            )
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found, log.read_text()
        address = urlsplit(found[0])
        self.host, self.port, self.log = str(address.hostname), int(address.port or 0), log
        while log.read_text().count('"event": "started"') < workers:
            assert self.process.poll() is None, log.read_text()
            time.sleep(0.2)

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def memory(self) -> int:
        """Resident bytes of the service, all its processes together."""
        pids = {str(self.process.pid)}
        pids |= set(re.findall(r'"worker": (\d+)', self.log.read_text()[:20_000]))
        total = 0
        for pid in pids:
            try:
                text = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            total += 1024 * int(re.findall(r"VmRSS:\s+(\d+)", text)[0])
        return total


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> tuple[int, bytes]:
    """One request; status and body of its answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(re.findall(rb"(?i)content-length: (\d+)", head)[0])
    return int(head[9:12]), await reader.readexactly(length)


def request_of(path: str, body: Any) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


async def client(
    service: Service, request: bytes, end: float, seconds: list[float], errors: list[str]
) -> None:
    """Ask until the end; the time of every answer, and what was none."""
    reader, writer = await asyncio.open_connection(service.host, service.port)
    try:
        while time.perf_counter() < end:
            start = time.perf_counter()
            try:
                status, _ = await ask(reader, writer, request)
            except (OSError, asyncio.IncompleteReadError) as error:
                errors.append(type(error).__name__)
                reader, writer = await asyncio.open_connection(service.host, service.port)
                continue
            seconds.append(time.perf_counter() - start)
            if status != 200:
                errors.append(str(status))
    finally:
        writer.close()


async def load(service: Service, request: bytes, n_clients: int, length: float) -> dict[str, Any]:
    """Latency of answers to so many clients at a time."""
    seconds: list[float] = []
    errors: list[str] = []
    start = time.perf_counter()
    end = start + length
    await asyncio.gather(
        *(client(service, request, end, seconds, errors) for _ in range(n_clients))
    )
    passed = time.perf_counter() - start
    found = 1e3 * np.percentile(seconds, [50, 90, 99, 100])
    return {
        "clients": n_clients,
        "answers": len(seconds),
        "errors": len(errors),
        "per_second": len(seconds) / passed,
        **dict(zip(("p50_ms", "p90_ms", "p99_ms", "most_ms"), found.tolist(), strict=True)),
    }


async def soak(service: Service, requests: list[bytes], length: float) -> dict[str, Any]:
    """Questions of all kinds for a while, and the memory of the service on the way."""
    seconds: list[float] = []
    errors: list[str] = []
    begun = time.perf_counter()
    memory = []

    async def watch() -> None:
        while time.perf_counter() < begun + length:
            memory.append(service.memory())
            await asyncio.sleep(length / 40)

    clients = [
        client(service, requests[k % len(requests)], begun + length, seconds, errors)
        for k in range(2 * len(requests))
    ]
    await asyncio.gather(watch(), *clients)
    half = len(memory) // 2
    # Caches fill and threads start in the first half.
    growth = float(np.median(memory[-half // 2 :]) / np.median(memory[half : half + half // 2]) - 1)
    return {
        "seconds": length,
        "answers": len(seconds),
        "errors": len(errors),
        "memory_mb": [round(m / 2**20, 1) for m in memory],
        "growth": growth,
        "flat": growth <= FLAT_SHARE,
    }


def run(length: float, soak_length: float, forest: str, trees: int) -> dict[str, Any]:
    from sklearn.datasets import load_breast_cancer

    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.kpp"
        fit = ["fit", "breast_cancer", "--forest", forest, "--trees", str(trees), "--json"]
        assert kpp_command([*fit, "--out", str(model)]) == 0
        frame = load_breast_cancer(as_frame=True).data
        body = {"rows": [frame.iloc[0].to_dict()]}
        predict = request_of("/predict", body)
        result: dict[str, Any] = {**versions(), "forest": forest, "trees": trees, "load": {}}
        result |= {"seconds": length, "load_before": os.getloadavg()[0]}
        for workers in (1, 2):
            with Service(model, Path(folder) / f"log{workers}", workers) as service:
                asyncio.run(load(service, predict, 4, min(length, 2.0)))  # caches
                result["load"][str(workers)] = [
                    asyncio.run(load(service, predict, n, length)) for n in CLIENTS
                ]
                if workers == 1:
                    many = {"rows": frame.iloc[:200].to_dict(orient="records")}
                    requests = [predict, request_of("/predict", many)]
                    requests += [request_of(f"/{name}", body) for name in ("explain", "certify")]
                    result["soak"] = asyncio.run(soak(service, requests, soak_length))
        return result


def page(result: dict[str, Any]) -> str:
    model = f"`{result['forest']}`, {result['trees']} trees"
    lines = [
        "# A service under load",
        "",
        "Written by `benchmarks/load_service.py`: `kpp serve` of a model of breast_cancer (30 "
        f"columns, {model}), predictions of one row with their probabilities, JSON over lasting "
        f"connections; {result['seconds']:g} s each. The clients are on the same machine and "
        "take processor time from the service; so may others, see the load.",
        "",
        f"{describe(result)} Load of the machine before the run: {result['load_before']:.1f}.",
        "",
        "| workers | clients | answers a second | median, ms | p90, ms | p99, ms | longest, ms "
        "| errors |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for workers, rows in result["load"].items():
        lines += [
            f"| {workers} | {r['clients']} | {r['per_second']:.0f} | {r['p50_ms']:.1f} "
            f"| {r['p90_ms']:.1f} | {r['p99_ms']:.1f} | {r['most_ms']:.1f} | {r['errors']} |"
            for r in rows
        ]
    found = result["soak"]
    memory = found["memory_mb"]
    at = [memory[0], memory[len(memory) // 2], memory[-1]]
    lines += [
        "",
        f"Soak of {found['seconds']:g} s, one worker: predictions of 1 and of 200 rows, "
        f"explanations and certificates side by side, {found['answers']} answers, "
        f"{found['errors']} errors. Memory: {at[0]:.0f} MB first, {at[1]:.0f} in the middle, "
        f"{at[2]:.0f} at the end; from the third quarter to the last {found['growth']:+.1%} (at "
        f"most {FLAT_SHARE:.0%} is flat: {'yes' if found['flat'] else 'no'}).",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="small, to see that it runs")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--soak", type=float, default=60.0)
    given = parser.parse_args()
    length, soak_length = (0.5, 2.0) if given.quick else (given.seconds, given.soak)
    result = run(length, soak_length, "extra-trees", 10 if given.quick else 100)
    write("load_service", result, page(result), given.out)


if __name__ == "__main__":
    main()
