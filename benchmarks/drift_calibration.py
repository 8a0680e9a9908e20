"""How often `kpp.drift` gives a false alarm, and how often it finds a shift, by simulation.

Rows are drawn anew in every run: those of the fit, those of a reference that the fit has not used,
and new ones, alike or shifted. Run: ``python benchmarks/drift_calibration.py --out FILE``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from kpp import KPPClassifier, KPPRegressor, drift

FORESTS = ("extra-trees", "random-forest", "boosted", "blend")
SHIFTS = (0.0, 0.5)


def table(n_rows: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Six columns, two of them counts, one of heavy tails; the target depends on three."""
    X = random.normal(size=(n_rows, 6))
    X[:, 3] = random.poisson(2.0, n_rows)
    X[:, 4] = random.integers(0, 2, n_rows)
    X[:, 5] = random.standard_t(3, n_rows)
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 3] + random.normal(size=n_rows)
    return X, y


def alarms(
    forest: str, shift: float, n_runs: int, *, classify: bool, n_fit: int, n_new: int
) -> dict[str, float]:
    """Share of runs with an alarm: beside the rows of the fit, and beside others."""
    found = {"fit": 0, "unused": 0}
    for run in range(n_runs):
        random = np.random.default_rng(run)
        (X, y), (reference, _), (new, _) = (table(n, random) for n in (n_fit, n_new, n_new))
        new[:, 0] += shift
        own: dict[str, Any] = {"n_estimators": 20, "random_state": run, "n_jobs": 1}
        if forest != "blend":
            own["alpha"] = 0.01 if classify else 1.0
        if classify:
            model = KPPClassifier(forest, **own).fit(X, y > 1)
        else:
            model = KPPRegressor(forest, **own).fit(X, y)
        found["fit"] += drift(model, new, n_permutations=99).drifted
        found["unused"] += drift(model, new, reference, n_permutations=99).drifted
    return {name: count / n_runs for name, count in found.items()}


def main(arguments: list[str] | None = None) -> None:
    """Run the simulation, and write its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=200, help="of the fit; half as many new ones")
    parser.add_argument("--forests", nargs="+", default=list(FORESTS))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    lines = [
        "# False alarms of `drift`, and what it finds",
        "",
        f"Share of {asked.runs} runs with p <= 0.05; {asked.rows} rows of the fit, "
        f"{asked.rows // 2} new ones and as many for the reference that the fit has not used; "
        "20 trees, 99 permutations. The shift moves the first column by so many standard",
        "deviations. One standard error of a share of 0.05 is "
        f"{np.sqrt(0.05 * 0.95 / asked.runs):.3f}.",
        "",
        "| forest | task | shift | beside the rows of the fit | beside rows it has not used |",
        "|---|---|---|---|---|",
    ]
    for forest in asked.forests:
        for classify in (False, True):
            for shift in SHIFTS:
                sizes = {"n_fit": asked.rows, "n_new": asked.rows // 2}
                share = alarms(forest, shift, asked.runs, classify=classify, **sizes)
                task = "classification" if classify else "regression"
                lines.append(
                    f"| {forest} | {task} | {shift:g} | {share['fit']:.3f} | "
                    f"{share['unused']:.3f} |"
                )
                print(lines[-1], flush=True)
    if asked.out is not None:
        asked.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
