"""Certified radii: leafwise against Lipschitz, rows a second, and raw input against veritas.

Run ``python benchmarks/certificates.py --data-dir FOLDER --out benchmarks/results``. The paper's
five data sets, splits and forests (200 extremely randomised trees, five seeds), at the paper's
alphas and at automatic ones. The exact raw-input radii are veritas' (``pip install dtai-veritas``);
without it that part is left out.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import KFold, cross_val_predict, train_test_split
from speed_fit import rows_of
from timing import N_REPEATS, describe, median_seconds, versions, write

from kpp import KPPClassifier, KPPRegressor
from kpp.certificates import certify, certify_raw, combine_curves, robustness_curve
from kpp.certificates.curves import RobustnessCurve
from kpp.export import collapse
from kpp.forest.join import as_float64

try:
    import veritas
except ImportError:
    veritas = None

matplotlib.use("Agg")
import matplotlib.pyplot as plt


class PaperSet(NamedTuple):
    """A data set of the paper, its penalty, and what its table of radii says."""

    name: str
    classification: bool
    n_rows: int | None
    alpha: float
    u_half: float | None = None
    u_max: float | None = None


GRID = np.logspace(-10, 0, 20)
SETS = [
    PaperSet("breast_cancer", True, None, GRID[0], 1.74e-3, 2.44e-3),
    PaperSet("spambase", True, None, GRID[6], 3.35e-5, 8.26e-5),
    PaperSet("california_housing", False, 2000, GRID[14], 2.33e-6, 6.69e-4),
    PaperSet("concrete", False, None, GRID[12], 3.16e-6, 3.29e-3),
    PaperSet("wine_quality_red", False, None, GRID[15], 6.16e-6, 4.59e-3),
]
QUICK_SETS = [SETS[0], PaperSet("diabetes", False, None, 0.4329)]
# Large enough for trees of 300 leaves and 10,000 held-out rows.
SPEED_SETS = [PaperSet("bank_marketing", True, None, 0.0), SETS[2]._replace(n_rows=None)]
ALPHAS = {"paper": "the paper's alpha", "auto": "automatic alpha"}
METHODS = ("lipschitz", "leafwise")
ESTIMATORS: dict[bool, tuple[Any, Any]] = {
    True: (KPPClassifier, ExtraTreesClassifier),
    False: (KPPRegressor, ExtraTreesRegressor),
}

RATIO_TARGET = 4.0
SPEED_TARGET = 10_000.0

EFFORTS = (100_000, 1_000_000)
VERITAS_SECONDS = 30.0  # a row; shared out over its steps
TOLERANCE = 1e-5  # veritas halves until its bracket is as narrow as this

# Blue and vermillion of Okabe and Ito, told apart by every kind of colour vision.
STYLE: dict[str, dict[str, Any]] = {
    "lipschitz": {"color": "#D55E00", "linestyle": "--", "label": "Lipschitz (the paper's)"},
    "leafwise": {"color": "#0072B2", "linestyle": "-", "label": "leafwise"},
}


# The curves of all seeds, by method.
Curves = dict[str, list[RobustnessCurve]]


class Settings(NamedTuple):
    """How much is measured."""

    sets: list[PaperSet]
    seeds: int = 5
    n_trees: int = 200
    speed_trees: int = 100
    speed_leaves: int = 300
    speed_rows: int = 10_000
    repeats: int = N_REPEATS
    raw_rows: int = 50
    raw_budget: float = 60.0
    small_models: tuple[tuple[int, int], ...] = ((10, 12), (25, 16), (50, 24), (100, 32))
    small_sets: tuple[str, ...] = ("breast_cancer", "spambase")
    small_rows: int = 40


FULL = Settings(SETS)
QUICK = Settings(QUICK_SETS, 1, 10, 10, 20, 100, 1, 4, 1.0, ((5, 8),), ("breast_cancer",), 3)


def read(data: PaperSet, data_dir: str | None) -> tuple[Any, Any]:
    if data.name == "diabetes":
        return load_diabetes(return_X_y=True)
    return rows_of(data.name, data.classification, data.n_rows, data_dir)


def halves(X: Any, y: Any, classification: bool, seed: int) -> Any:
    """The paper's split."""
    return train_test_split(
        X, y, test_size=0.2, random_state=seed, stratify=y if classification else None
    )


def out_of_fold_error(model: Any, X: Any, y: Any, seed: int) -> float:
    """RMSE of predictions by models that have not seen the row: the tolerance of a regressor."""
    prediction = model.oof_prediction_
    if prediction is None:  # a given alpha: grow and fit again in each fold
        folds = KFold(5, shuffle=True, random_state=seed)
        prediction = cross_val_predict(model, X, y, cv=folds)
    return float(root_mean_squared_error(y, prediction))


def quantiles(values: Any) -> dict[str, float]:
    """Minimum, quartiles and maximum; values that were observed, so that infinity may occur."""
    names = ("min", "q1", "median", "q3", "max")
    found = np.quantile(values, (0, 0.25, 0.5, 0.75, 1), method="lower")
    return dict(zip(names, found.tolist(), strict=True))


# The ratio of leafwise to Lipschitz radius, and the curves.


def measure_set(
    data: PaperSet, alpha: str, settings: Settings, data_dir: str | None
) -> tuple[dict[str, Any], Curves, Any]:
    """All seeds of a set: the ratios, the curves, and model, rows and tolerance of seed 0."""
    X, y = read(data, data_dir)
    kind, forest = ESTIMATORS[data.classification]
    curves: Curves = {method: [] for method in METHODS}
    ratios, never, used, tolerances, first = [], [], [], [], None
    n_without = 0
    for seed in range(settings.seeds):
        X_train, X_test, y_train, y_test = halves(X, y, data.classification, seed)
        trees = forest(settings.n_trees, random_state=seed)
        solver = {"alpha": data.alpha, "tol": 1e-11, "max_iter": 5000} if alpha == "paper" else {}
        model = kind(trees, random_state=seed, n_jobs=-1, **solver).fit(X_train, y_train)
        epsilon = None
        if not data.classification:
            epsilon = out_of_fold_error(model, X_train, y_train, seed)
            tolerances.append(epsilon)
        certificate = certify(model, X_test, epsilon=epsilon)
        # A margin within rounding certifies nothing, by either method.
        has_radius = certificate.lipschitz > 0
        n_without += int((~has_radius).sum())
        ratios.append(certificate.radius[has_radius] / certificate.lipschitz[has_radius])
        never.append(certificate.never_flips)
        used.append(model.alpha_)
        for method in METHODS:
            curves[method].append(robustness_curve(model, X_test, y_test, method=method))
        first = first or (model, X_test, epsilon)
    ratio = np.concatenate(ratios)
    row = {
        "data": data.name,
        "alphas": alpha,
        "alpha": [min(used), max(used)],
        "epsilon": float(np.mean(tolerances)) if tolerances else None,
        "n_rows": len(ratio),
        "n_without_radius": n_without,
        **quantiles(ratio),
        "never_flips": float(np.concatenate(never).mean()),
        "never_below_1": bool(ratio.min() >= 1),
        "target": RATIO_TARGET,
        "met": bool(quantiles(ratio)["median"] >= RATIO_TARGET),
    }
    return row, curves, first


def curve_row(data: PaperSet, alpha: str, curves: Curves) -> dict[str, Any]:
    """Means over the seeds of what a curve is known by."""
    row: dict[str, Any] = {"data": data.name, "alphas": alpha}
    for method, found in curves.items():
        figures = [(c(0.0), c.u_half, c.u_max, c(c.u_max)) for c in found]
        names = ("at_0", "u_half", "u_max", "at_u_max")
        row[method] = dict(zip(names, np.mean(figures, axis=0).tolist(), strict=True))
    published = (data.u_half, data.u_max) if alpha == "paper" else (None, None)
    return row | {"published_u_half": published[0], "published_u_max": published[1]}


def draw(results: list[tuple[PaperSet, str, Curves]], path: Path) -> None:
    """One column a data set, one row a choice of alpha."""
    names = list(dict.fromkeys(data.name for data, _, _ in results))
    shape = (len(ALPHAS), len(names))
    figure, axes = plt.subplots(
        *shape, figsize=(3.1 * shape[1] + 0.6, 6.2), layout="constrained", squeeze=False
    )
    for data, alpha, curves in results:
        ax = axes[list(ALPHAS).index(alpha), names.index(data.name)]
        draw_panel(ax, curves)
        if alpha == "paper":
            ax.set_title(data.name, fontsize=11)
        else:
            ax.set_xlabel(r"radius $u$ in $\delta_T$")
    for ax, title in zip(axes[:, 0], ALPHAS.values(), strict=True):
        place = {"xy": (-0.34, 0.5), "xycoords": "axes fraction", "rotation": 90}
        ax.annotate(title, ha="center", va="center", fontsize=11, **place)
    engine: Any = figure.get_layout_engine()
    engine.set(wspace=0.03)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_panel(ax: Any, curves: Curves) -> None:
    """Mean and standard deviation over the seeds, and where the metric halves or doubles."""
    accuracy = curves["leafwise"][0].metric == "accuracy"
    halving = [np.mean([curve.u_half for curve in curves[method]]) for method in METHODS]
    end = max(curve.u_max for found in curves.values() for curve in found)
    radii = np.geomspace(halving[0] / (100 if accuracy else 30), end, 300)
    goal = 0.0
    for method, u_half in zip(METHODS, halving, strict=True):
        style = STYLE[method]
        band = combine_curves(curves[method], radii=radii)
        start = np.mean([curve(0.0) for curve in curves[method]])
        goal = start / 2 if accuracy else 2 * start
        low = np.maximum(band.mean - band.std, 0 if accuracy else start / 2)
        ax.fill_between(radii, low, band.mean + band.std, color=style["color"], alpha=0.2, lw=0)
        ax.plot(radii, band.mean, lw=1.8, **style)
        ax.plot(u_half, goal, "o", color=style["color"], markersize=5.5, zorder=3)
    ax.axhline(goal, color="0.45", lw=0.9, ls=":", label="accuracy halved, squared error doubled")
    ax.set_xscale("log")
    ax.set_xlim(radii[0], end)
    if accuracy:
        ax.set_ylim(0, 1.02)
        ax.set_ylabel("RobAcc(u)")
    else:
        ax.set_yscale("log")
        ax.set_ylabel("RobMSE(u)")
    ax.grid(alpha=0.25, lw=0.6)


# Rows a second.


def measure_speed(data: PaperSet, settings: Settings, data_dir: str | None) -> list[dict[str, Any]]:
    """Certify held-out rows with trees of a given number of leaves."""
    X, y = read(data, data_dir)
    n = min(settings.speed_rows, len(y) // 2)
    order = np.random.default_rng(0).permutation(len(y))
    train, rows = order[:n], order[n : 2 * n]
    kind, forest = ESTIMATORS[data.classification]
    trees = forest(settings.speed_trees, max_leaf_nodes=settings.speed_leaves, random_state=0)
    model = kind(trees, random_state=0, n_jobs=-1).fit(X[train], y[train])
    epsilon = None if data.classification else out_of_fold_error(model, X[train], y[train], 0)
    flat = model.forest_
    n_leaves = np.add.reduceat(flat.is_leaf.astype(int), flat.roots)
    found = []
    for n_jobs, n_rows in ((-1, n), (-1, n // 10), (1, n)):
        model.set_params(n_jobs=n_jobs)
        some = X[rows[:n_rows]]
        seconds = median_seconds(partial(certify, model, some, epsilon=epsilon), settings.repeats)
        judged = n_jobs == -1 and n_rows == n
        found.append(
            {
                "what": f"{'binary' if data.classification else 'regression'}, {data.name}",
                "trees": flat.n_trees,
                "leaves": [int(n_leaves.min()), int(n_leaves.max())],
                "n_rows": n_rows,
                "threads": "all cores" if n_jobs == -1 else "one",
                "rows_per_second": n_rows / seconds,
                "runs": settings.repeats,
                "target": SPEED_TARGET if judged else None,
                "met": n_rows / seconds >= SPEED_TARGET if judged else None,
            }
        )
    return found


# Raw input.


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    done = work()
    return done, time.perf_counter() - start


def measure_raw(name: str, first: Any, settings: Settings) -> dict[str, Any]:
    """Brackets of some test rows, within a time budget, in units of each column's spread."""
    model, X_test, epsilon = first
    rows, budget = X_test[: settings.raw_rows], settings.raw_budget
    certify_raw(model, rows[:1], scale="std", epsilon=epsilon, effort=100)  # compile first
    work = partial(certify_raw, model, rows, scale="std", epsilon=epsilon)
    alone, alone_seconds = timed(partial(work, effort=0))
    joint, seconds = timed(partial(work, time_budget=budget))
    done = joint.finished & joint.found
    ratio = joint.radius[done] / joint.upper_radius[done]
    return {
        "data": name,
        "trees": model.forest_.n_trees,
        "leaves_per_tree": float(model.forest_.is_leaf.sum() / model.forest_.n_trees),
        "n_rows": len(rows),
        "budget_s": budget,
        "seconds": seconds,
        "n_finished": int(joint.finished.sum()),
        "n_found": int(joint.found.sum()),
        "rows_per_second": float(joint.finished.sum() / seconds),
        "alone_rows_per_second": len(rows) / alone_seconds,
        "median_radius": float(np.median(joint.radius)),
        "median_alone": float(np.median(alone.radius)),
        "ratio": quantiles(ratio) if done.any() else None,
    }


def exact_radii(model: Any, rows: Any) -> tuple[Any, Any, float]:
    """Brackets by veritas, whether it settled the row, and its seconds.

    A settled row has an exact radius, to the tolerance. The bracket of any other runs from what was
    proved to the nearest change that was shown.
    """
    # veritas compares in float64: it gets the thresholds at which the model's rounding turns.
    collapsed = collapse(model)
    (block,) = collapsed.blocks
    block = replace(block, forest=replace(as_float64(block.forest), dtype=np.dtype(np.float32)))
    trees = veritas.get_addtree(replace(collapsed, blocks=(block,)).to_sklearn(), silent=True)
    brackets, settled, seconds = [], [], 0.0
    for x, score in zip(rows, model.decision_function(rows), strict=True):
        start = time.perf_counter()
        search = veritas.VeritasRobustnessSearch(
            x.astype(veritas.FloatT),
            16.0,
            *((trees, None) if score > 0 else (None, trees)),
            num_steps=60,
            max_time=VERITAS_SECONDS,
            stop_condition=lambda low, high: high - low <= TOLERANCE * high,
            silent=True,
        )
        # Out of time, a step counts as a change without showing one: that radius is not exact.
        steps: list[bool] = []
        bound = search.get_max_output_difference

        def step(delta: float, limit: float, bound: Any = bound, steps: Any = steps) -> Any:
            most, examples = bound(delta, limit)
            steps.append(most < 0 or len(examples) > 0)
            return most, examples

        search.get_max_output_difference = step
        _, low, high = search.search()
        seconds += time.perf_counter() - start
        shown = [float(np.abs(np.asarray(e) - x).max()) for e in search.generated_examples]
        settled.append(bool(shown) and all(steps) and high - low <= 2 * TOLERANCE * high)
        high = high if settled[-1] else min(shown, default=np.inf)
        brackets.append((low, high))
    return np.array(brackets), np.array(settled), seconds


def measure_against_veritas(
    name: str, n_trees: int, n_leaves: int, settings: Settings, data_dir: str | None
) -> list[dict[str, Any]]:
    """The same rows, on one thread, for every effort."""
    X, y = rows_of(name, True, None, data_dir)
    X_train, X_test, y_train, _ = halves(X / X.std(axis=0), y, True, 0)
    forest = RandomForestClassifier(n_trees, max_leaf_nodes=n_leaves, random_state=0)
    model = KPPClassifier(forest, n_jobs=1, random_state=0).fit(X_train, y_train)
    rows = X_test[: settings.small_rows]
    brackets, exact, theirs = exact_radii(model, rows)
    found = []
    for effort in EFFORTS:
        certify_raw(model, rows[:1], effort=effort)
        certificate, ours = timed(partial(certify_raw, model, rows, effort=effort))
        radius, (low, high) = certificate.radius, brackets.T
        found.append(
            {
                "data": name,
                "trees": n_trees,
                "leaves": n_leaves,
                "effort": effort,
                "n_rows": len(rows),
                "n_exact": int(exact.sum()),
                "n_above": int((radius > high * (1 + 1e-9)).sum()),
                "n_found_below": int((certificate.upper_radius < low * (1 - 1e-9)).sum()),
                "largest_over_upper": float((radius / high).max()),
                "n_equal": int((radius >= low * (1 - TOLERANCE))[exact].sum()),
                "n_larger": int((radius > low)[~exact].sum()),
                "closeness": quantiles((radius / low)[exact]) if exact.any() else None,
                "kpp_ms": 1e3 * ours / len(rows),
                "veritas_ms": 1e3 * theirs / len(rows),
            }
        )
    return found


# The page.


def number(value: float | None, form: str = ".3g") -> str:
    if value is None:
        return ""
    return "∞" if np.isinf(value) else format(value, form)


def span(low: float, high: float) -> str:
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def yes(value: bool | None) -> str:
    return "" if value is None else ("yes" if value else "no")


def table(header: str, rows: Iterable[tuple[Any, ...]]) -> list[str]:
    names = [name.strip() for name in header.split("|")]
    lines = [names, ["---"] * len(names), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines] + [""]


def ratio_section(rows: list[dict[str, Any]], seeds: int) -> list[str]:
    def cells(row: dict[str, Any]) -> tuple[Any, ...]:
        ratio = [number(row[name]) for name in ("min", "q1", "median", "q3", "max")]
        never = f"{100 * row['never_flips']:.1f}%"
        first = (row["data"], span(*row["alpha"]), number(row["epsilon"]), row["n_rows"])
        return (*first, *ratio, never, yes(row["met"]))

    lines = [
        "## Leafwise over Lipschitz radius",
        "",
        f"In δ_T; test rows, seeds together ({seeds}). Regression: the radius at a tolerance "
        "epsilon, the out-of-fold RMSE (mean over seeds). The minimum cannot be below 1: "
        "the theorem says so, and in floating point the larger of the two is reported.",
        "",
    ]
    header = (
        "data | alpha | epsilon | rows | minimum | lower quartile | median | upper quartile "
        "| maximum | never flips | median at least 4"
    )
    for alpha, title in ALPHAS.items():
        chosen = [row for row in rows if row["alphas"] == alpha]
        lines += [f"At {title}:", "", *table(header, map(cells, chosen))]
    met = [row["met"] for row in rows if row["alphas"] == "paper"]
    return [
        *lines,
        f"Never below 1: {yes(all(row['never_below_1'] for row in rows))}. Median at least "
        f"{RATIO_TARGET:g}, the target at the paper's alphas: on {sum(met)} of {len(met)} sets. "
        "Rows whose margin is within rounding, left out: "
        f"{sum(row['n_without_radius'] for row in rows)}.",
        "",
    ]


def curve_section(rows: list[dict[str, Any]]) -> list[str]:
    def cells(row: dict[str, Any]) -> tuple[Any, ...]:
        half, most, last = (
            [row[method][name] for method in METHODS] for name in ("u_half", "u_max", "at_u_max")
        )
        radii = [row["published_u_half"], *half, half[1] / half[0], row["published_u_max"], *most]
        start = number(row["lipschitz"]["at_0"], ".4g")
        return (row["data"], row["alphas"], start, *map(number, [*radii, *last]))

    return [
        "## Certified accuracy and certified squared error",
        "",
        "![RobAcc and RobMSE of both methods](certificates.png)",
        "",
        "Mean over seeds, plus and minus a standard deviation; dots where accuracy is halved or "
        "squared error doubled. `u_half` and `u_max` are exact, means over seeds; the published "
        "`u_half` is the next point of a grid, up to 1.21 times larger. For classification `u_max` "
        "is the largest finite radius of the method, for regression (M/L)² for both.",
        "",
        *table(
            "data | alpha | at 0 | u_half: published | Lipschitz | leafwise | times "
            "| u_max: published | Lipschitz | leafwise | at u_max: Lipschitz | leafwise",
            map(cells, rows),
        ),
    ]


def speed_section(rows: list[dict[str, Any]]) -> list[str]:
    def cells(row: dict[str, Any]) -> tuple[Any, ...]:
        speed = (number(row["rows_per_second"], ",.0f"), number(row["target"], ",.0f"))
        size = (row["trees"], span(*row["leaves"]), row["n_rows"])
        return (row["what"], *size, row["threads"], *speed, yes(row["met"]))

    return [
        "## Rows a second of `certify`",
        "",
        f"Held-out rows, automatic alpha, routing included; median over runs ({rows[0]['runs']}), "
        "after one that is not counted. Regression solves two problems a row.",
        "",
        *table(
            "what | trees | leaves a tree | rows | threads | rows a second | target | met",
            map(cells, rows),
        ),
    ]


def raw_section(rows: list[dict[str, Any]]) -> list[str]:
    def cells(row: dict[str, Any]) -> tuple[Any, ...]:
        size = (row["trees"], number(row["leaves_per_tree"], ".0f"))
        done = f"{row['n_finished']} of {row['n_rows']}"
        joint = [row["seconds"], row["rows_per_second"], row["median_radius"]]
        ratio = [(row["ratio"] or {}).get(name) for name in ("q1", "median", "q3")]
        alone = (number(row["alone_rows_per_second"], ",.0f"), number(row["median_alone"]))
        return (row["data"], *size, done, *map(number, [*joint, *ratio]), *alone)

    return [
        "## Raw input",
        "",
        f"The first {rows[0]['n_rows']} test rows of seed 0 at automatic alphas, all cores, l∞ in "
        f"units of each column's spread, `time_budget={rows[0]['budget_s']:g}` seconds a set, the "
        "default effort. Ratio of the certified radius to that of the nearest change found, over "
        "the finished rows: the exact radius lies between the two. Beside it the radius that takes "
        "the trees one by one (`effort=0`).",
        "",
        *table(
            "data | trees | leaves a tree | finished | seconds | rows a second | median radius "
            "| ratio: lower quartile | median | upper quartile | one by one: rows a second "
            "| median radius",
            map(cells, rows),
        ),
    ]


def veritas_section(result: dict[str, Any]) -> list[str]:
    title, rows = ["## Raw input against veritas", ""], result["veritas"]
    if rows is None:
        return [*title, "veritas is not installed (`pip install dtai-veritas`): left out."]

    def cells(row: dict[str, Any]) -> tuple[Any, ...]:
        size = (row["trees"], row["leaves"], f"{row['effort']:,}")
        close = [(row["closeness"] or {}).get(name) for name in ("min", "q1", "median")]
        exact = (f"{row['n_exact']} of {row['n_rows']}", row["n_equal"])
        left = (row["n_rows"] - row["n_exact"], row["n_larger"])
        times = (number(row["kpp_ms"]), number(row["veritas_ms"]))
        return (row["data"], *size, *exact, *(number(c, ".3f") for c in close), *left, *times)

    return [
        *title,
        f"veritas {result['veritas_version']}, its robustness search as it ships, halving to a "
        f"relative {TOLERANCE:g}, at most {VERITAS_SECONDS:g} seconds a row. Random forests under "
        "automatic alphas, columns in units of their spread, the same rows, one thread on both "
        "sides. Exact: rows that veritas settled; equal: of these, ours within its bracket. Open: "
        "rows that it did not settle; larger: of these, ours above what it proved.",
        "",
        *table(
            "data | trees | leaves | effort | exact | equal | ours / exact: minimum "
            "| lower quartile | median | open | larger | kpp, ms a row | veritas, ms a row",
            map(cells, rows),
        ),
        f"Radii above veritas' upper end: {sum(row['n_above'] for row in rows)} of "
        f"{sum(row['n_rows'] for row in rows)}. Changes found below its lower end: "
        f"{sum(row['n_found_below'] for row in rows)}. Largest radius over veritas' upper "
        f"end: {max(row['largest_over_upper'] for row in rows):.9f}.",
    ]


def to_markdown(result: dict[str, Any]) -> str:
    """The page."""
    lines = [
        "# Certified radii",
        "",
        "Written by `benchmarks/certificates.py`.",
        "",
        describe(result),
        "",
        f"The paper's splits and forests: {result['n_trees']} extremely randomised trees. "
        'Automatic alphas: as many trees, grown in five groups as `alpha="auto"` does.',
        "",
        *ratio_section(result["ratios"], result["seeds"]),
        *curve_section(result["curves"]),
        *speed_section(result["speed"]),
        *raw_section(result["raw"]),
        *veritas_section(result),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", help="folder with <name>.csv.gz")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="small data, to try it out")
    arguments = parser.parse_args()
    folder, settings = arguments.data_dir, QUICK if arguments.quick else FULL
    warnings.simplefilter("ignore", ConvergenceWarning)
    if veritas is None:
        print("veritas is not installed: no exact radii to compare with.", flush=True)

    ratios, curve_rows, drawn, raw, speed, against = [], [], [], [], [], []
    for data in settings.sets:
        for alpha in ALPHAS:
            row, curves, first = measure_set(data, alpha, settings, folder)
            ratios.append(row)
            curve_rows.append(curve_row(data, alpha, curves))
            drawn.append((data, alpha, curves))
        raw.append(measure_raw(data.name, first, settings))  # of the automatic alpha
        print(data.name, flush=True)
    for data in settings.sets if arguments.quick else SPEED_SETS:
        speed += measure_speed(data, settings, folder)
    if veritas is not None:
        for name in settings.small_sets:
            for size in settings.small_models:
                against += measure_against_veritas(name, *size, settings, folder)
                print(name, *size, flush=True)
    result = {
        **versions(),
        "n_trees": settings.n_trees,
        "seeds": settings.seeds,
        "ratios": ratios,
        "curves": curve_rows,
        "speed": speed,
        "raw": raw,
        "veritas": None if veritas is None else against,
        "veritas_version": None if veritas is None else version("dtai-veritas"),
    }
    # JSON has no infinity: such figures become words.
    figures = json.loads(json.dumps(result), parse_constant=str)
    write("certificates", figures, to_markdown(result), arguments.out)
    if arguments.out:
        draw(drawn, arguments.out / "certificates.png")


if __name__ == "__main__":
    main()
