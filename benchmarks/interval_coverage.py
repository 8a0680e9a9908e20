"""Coverage of intervals and sets: on real splits, beside MAPIE, and where it is guaranteed.

Run ``python benchmarks/interval_coverage.py --data-dir FOLDER --out benchmarks/results``. What was
found is kept at once, and a run that is broken off goes on where it was. Its parts:

- sets: the default model on every development set; intervals of both kinds of width, sets by both
  scores, the share of test rows that they cover, and their size.
- mapie: MAPIE's CrossConformalRegressor and CrossConformalClassifier around the same model, on the
  same folds: coverage, size and time.
- draws: known distributions and a setting that has the guarantee; the mean coverage over many
  draws must not be below it.
- suite: as sets, on the suite, for the record.
- losses: quantile and Poisson losses on the development sets, with both kinds of width: which one
  is the default of each loss.
- exposures: made counts of rows that were watched for different times; what intervals cover of long
  and short times, with the exposure given as an offset and without.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_blend import data_sets, split_of
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from timing import describe, versions, write

from kpp import KPPClassifier, KPPRegressor

LEVEL = 0.9
MOST_ROWS = 2000
# Small sets are split more often.
SPLITS, FEW_ROWS = 2, 1000
N_SLICES = 5
MAPIE_SETS = ("concrete", "airfoil_self_noise", "abalone", "credit_g", "churn", "qsar_biodeg")
GUARANTEED = 0.8
# Fits of quantiles are slow; few trees and rows tell widths apart.
LOSS_TREES, LOSS_ROWS = 30, 1000
LOSSES: dict[str, dict[str, Any]] = {
    "squared": {},
    "quantile 0.5": {"loss": "quantile", "quantile": 0.5},
    "quantile 0.9": {"loss": "quantile", "quantile": 0.9},
    "quantiles 0.05, 0.95": {"loss": "quantile", "quantile": [0.05, 0.95]},
    "quantiles 0.25, 0.75": {"loss": "quantile", "quantile": [0.25, 0.75]},
    "poisson": {"loss": "poisson"},
}
# Of made counts.
SHORTEST, LONGEST, EXPOSURE_DRAWS = 0.2, 8.0, 100
# Of the development sets, those whose target counts something.
COUNTS = ("abalone", "seoul_bike")


def score_intervals(found: Any, y: Any, spread: float) -> dict[str, Any]:
    """Coverage, width and interval score, and the least coverage of a fifth of the rows."""
    inside = (found.lower <= y) & (y <= found.upper)
    outside = np.maximum(found.lower - y, 0) + np.maximum(y - found.upper, 0)
    # Of several quantiles their mean.
    prediction = found.prediction.reshape(len(y), -1).mean(axis=1)
    fifths = {
        name: [float(inside[rows].mean()) for rows in np.array_split(np.argsort(by), N_SLICES)]
        for name, by in (("prediction", prediction), ("width", found.width))
    }
    return {
        "coverage": float(inside.mean()),
        "width": float(found.width.mean() / spread),
        # Width plus 2 / a times how far the target is outside: least for the true quantiles.
        "score": float(np.mean(found.width + 2 / (1 - LEVEL) * outside) / spread),
        "worst_by_prediction": min(fifths["prediction"]),
        "worst_by_width": min(fifths["width"]),
    }


def score_sets(found: Any, y: Any) -> dict[str, Any]:
    """Coverage, size and empty sets, and the least coverage of a class."""
    codes = np.searchsorted(found.classes, y)
    inside = found.sets[np.arange(len(y)), codes]
    return {
        "coverage": float(inside.mean()),
        "size": found.mean_size,
        "empty": found.n_empty / len(y),
        "worst_class": min(float(inside[codes == k].mean()) for k in np.unique(codes)),
    }


def one_split(
    group: str, name: str, X: Any, X_test: Any, y: Any, y_test: Any, seed: int, classes: bool
) -> dict[str, Any]:
    """Fit the default model, and look at the test rows."""
    model = (KPPClassifier if classes else KPPRegressor)(random_state=seed)
    start = time.perf_counter()
    model.fit(X, y)
    record: dict[str, Any] = {
        "group": group,
        "set": name,
        "seed": seed,
        "classes": len(model.classes_) if classes else 0,
        "n": len(y),
        "n_test": len(y_test),
        "fit_s": time.perf_counter() - start,
    }
    rows = model.at(X_test)
    if not classes:
        spread = float(np.std(y_test)) or 1.0
        for width in ("constant", "adaptive"):
            found = model.predict_interval(rows, LEVEL, width=width)
            record[width] = score_intervals(found, y_test, spread)
        return record
    for method in ("lac", "aps"):
        record[method] = score_sets(model.predict_set(rows, LEVEL, method=method), y_test)
    own = model.predict_set(rows, LEVEL, method="aps", random_state=seed)
    record["aps_random"] = score_sets(own, y_test)
    least = int(np.bincount(np.searchsorted(model.classes_, y)).min())
    if least >= LEVEL / (1 - LEVEL):
        record["per_class"] = score_sets(model.predict_set(rows, LEVEL, per_class=True), y_test)
    return record


def all_sets(data_dir: str) -> list[tuple[str, str, bool]]:
    """The development sets, and the suite for the record."""
    folder = Path(data_dir)
    suite = json.loads((folder / "suite.json").read_text()).get("suite", {})
    own = [(f"development, {group}", name, has) for group, name, has in data_sets(folder)]
    return own + [
        ("suite", name, task != "regression") for task, names in suite.items() for name in names
    ]


def rows_of(name: str, data_dir: str, classes: bool, seed: int) -> Any:
    """Rows of training and of test, a fifth, and their targets."""
    if name == "breast_cancer":  # scikit-learn's own
        X, y = load_breast_cancer(return_X_y=True)
        return train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y)
    return split_of(name, data_dir, classes, seed, MOST_ROWS)


def run_sets(
    data_dir: str, is_suite: bool, known: list[dict[str, Any]]
) -> Iterator[list[dict[str, Any]]]:
    """Every set; small ones on several splits. All records so far, whenever there is a new one."""
    records = list(known)
    done = {(record["set"], record["seed"]) for record in records}
    for group, name, classes in all_sets(data_dir):
        if (group == "suite") != is_suite:
            continue
        for seed in range(SPLITS):
            X, X_test, y, y_test = rows_of(name, data_dir, classes, seed)
            if (name, seed) not in done:
                records.append(one_split(group, name, X, X_test, y, y_test, seed, classes))
                print(group, name, seed, f"{records[-1]['fit_s']:.1f} s", flush=True)
                yield records
            if len(y) >= FEW_ROWS or is_suite:
                break


def quick_sets() -> list[dict[str, Any]]:
    """Two sets that come with scikit-learn."""
    records = []
    for name, load, classes in (
        ("diabetes", load_diabetes, False),
        ("breast_cancer", load_breast_cancer, True),
    ):
        X, y = load(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
        records.append(one_split("quick", name, X, X_test, y, y_test, 0, classes))
    return records


# Other losses.


def of_losses(
    group: str, name: str, X: Any, X_test: Any, y: Any, y_test: Any, seed: int
) -> list[dict[str, Any]]:
    """Fit every loss once, and look at the test rows with both kinds of width."""
    spread = float(np.std(y_test)) or 1.0
    records = []
    for loss, given in LOSSES.items():
        if loss == "poisson" and (y < 0).any():
            continue
        start = time.process_time()
        model = KPPRegressor(n_estimators=LOSS_TREES, random_state=seed, **given).fit(X, y)
        record: dict[str, Any] = {
            "kpp": versions()["versions"]["kpp"],
            "group": group,
            "set": name,
            "seed": seed,
            "loss": loss,
            "n": len(y),
            "n_test": len(y_test),
            "fit_cpu_s": time.process_time() - start,
        }
        rows = model.at(X_test)
        for width in ("constant", "adaptive"):
            found = model.predict_interval(rows, LEVEL, width=width)
            record[width] = score_intervals(found, y_test, spread)
        records.append(record)
    return records


def run_losses(data_dir: str, known: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Every development set of numbers; small ones on several splits."""
    records = list(known)
    done = {(record["set"], record["seed"]) for record in records}
    for group, name, classes in data_sets(Path(data_dir)):
        for seed in [] if classes else range(SPLITS):
            X, X_test, y, y_test = split_of(name, data_dir, False, seed, LOSS_ROWS)
            if (name, seed) not in done:
                own = of_losses(f"development, {group}", name, X, X_test, y, y_test, seed)
                records += own
                print(name, seed, *(f"{one['fit_cpu_s']:.1f}" for one in own), "s", flush=True)
                yield records


def quick_losses() -> list[dict[str, Any]]:
    """One set that comes with scikit-learn."""
    X, y = load_diabetes(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X[:200], y[:200], test_size=0.5, random_state=0)
    return of_losses("quick", "diabetes", X, X_test, y, y_test, 0)


# Counts and exposures.


def run_exposures(n_draws: int, known: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Made counts; coverage, width and interval score in counts, by draws."""
    if known:
        return
    found: dict[tuple[str, bool], list[list[float]]] = defaultdict(list)
    for seed in range(n_draws):
        random = np.random.default_rng([seed, 2])
        parts = []
        for n in (400, 1000):
            X = random.normal(size=(n, 3))
            exposure = np.exp(random.uniform(np.log(SHORTEST), np.log(LONGEST), n))
            parts.append((X, exposure, random.poisson(exposure * np.exp(0.5 + 0.7 * X[:, 0]))))
        (X, exposure, counts), (new, e, target) = parts
        model = KPPRegressor(
            "extra-trees", n_estimators=20, loss="poisson", alphas=[0.3], random_state=seed
        ).fit(X, counts, offset=np.log(exposure))
        thirds = np.array_split(np.argsort(e), 3)
        for width in ("constant", "adaptive"):
            for knows in (False, True):
                own = model.predict_interval(
                    new, LEVEL, width=width, offset=np.log(e) if knows else None
                )
                # Those of rates cover as many counts when they are multiplied.
                low, high = (end * (1 if knows else e) for end in (own.lower, own.upper))
                hit = (low <= target) & (target <= high)
                outside = np.maximum(low - target, 0) + np.maximum(target - high, 0)
                score = float(np.mean(high - low + 2 / (1 - LEVEL) * outside))
                shares = [float(hit[rows].mean()) for rows in (thirds[0], thirds[2])]
                figures = [float(hit.mean()), *shares, float(np.mean(high - low)), score]
                found[width, knows].append(figures)
    names = ("coverage", "short", "long", "width", "score")
    yield [
        {"kpp": versions()["versions"]["kpp"], "width_kind": width, "offset": knows}
        | {"n_draws": n_draws}
        | dict(zip(names, np.mean(values, axis=0).tolist(), strict=True))
        | {"standard_error": float(np.std(np.array(values)[:, 0], ddof=1) / np.sqrt(n_draws))}
        for (width, knows), values in found.items()
    ]


# Beside MAPIE.


def beside_mapie(name: str, X: Any, X_test: Any, y: Any, y_test: Any, classes: bool) -> Any:
    """The same model and folds in MAPIE: its model is fitted anew without each fold."""
    from mapie.classification import CrossConformalClassifier
    from mapie.regression import CrossConformalRegressor

    folds = (StratifiedKFold if classes else KFold)(5, shuffle=True, random_state=0)
    model = (KPPClassifier if classes else KPPRegressor)(random_state=0, cv=folds)
    seconds: dict[str, float] = {}

    def timed(what: str, work: Any) -> Any:
        # Of the processor: others may use the machine. One thread, so that it is a user's wait.
        start = time.process_time()
        found = work()
        seconds[what] = time.process_time() - start
        return found

    timed("kpp fit", lambda: model.fit(X, y))
    spread = float(np.std(y_test)) or 1.0
    inner = (KPPClassifier if classes else KPPRegressor)(random_state=0)
    if classes:
        found = timed("kpp", lambda: model.predict_set(X_test, LEVEL))
        other = CrossConformalClassifier(
            inner, confidence_level=LEVEL, conformity_score="lac", cv=folds, random_state=0
        )
        timed("mapie fit", lambda: other.fit_conformalize(X, y))
        _, sets = timed("mapie", lambda: other.predict_set(X_test, agg_scores="crossval"))
        inside = sets[np.arange(len(y_test)), np.searchsorted(found.classes, y_test), 0]
        theirs = {
            "coverage": float(inside.mean()),
            "size": float(sets[:, :, 0].sum(axis=1).mean()),
        }
        ours = score_sets(found, y_test)
        size = "size"
    else:
        # The first call: it makes what later ones find.
        found = timed("kpp", lambda: model.predict_interval(X_test, LEVEL, width="constant"))
        adaptive = timed("kpp adaptive", lambda: model.predict_interval(X_test, LEVEL))
        other = CrossConformalRegressor(inner, confidence_level=LEVEL, method="plus", cv=folds)
        timed("mapie fit", lambda: other.fit_conformalize(X, y))
        _, ends = timed("mapie", lambda: other.predict_interval(X_test))
        lower, upper = ends[:, 0, 0], ends[:, 1, 0]
        inside = (lower <= y_test) & (y_test <= upper)
        theirs = {
            "coverage": float(inside.mean()),
            "width": float((upper - lower).mean() / spread),
        }
        ours = score_intervals(found, y_test, spread)
        ours["adaptive"] = score_intervals(adaptive, y_test, spread)
        size = "width"
    return {
        "set": name,
        "n": len(y),
        "n_test": len(y_test),
        "size": size,
        "kpp": ours,
        "mapie": theirs,
        "seconds": seconds,
        "clock": "processor",
        # Beyond a fitted model: ranks here, the fits of the folds and the ranks there. MAPIE
        # fits one model on all rows beside them, which is taken off.
        "ratio": (seconds["mapie fit"] + seconds["mapie"] - seconds["kpp fit"]) / seconds["kpp"],
    }


def run_mapie(data_dir: str, known: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """A handful of sets."""
    kinds = {name: classes for _, name, classes in all_sets(data_dir)}
    records = list(known)
    for name in MAPIE_SETS:
        if any(record["set"] == name for record in records):
            continue
        X, X_test, y, y_test = split_of(name, data_dir, kinds[name], 0, MOST_ROWS)
        records.append(beside_mapie(name, X, X_test, y, y_test, kinds[name]))
        print(name, f"{records[-1]['ratio']:.0f}", flush=True)
        yield records


def quick_mapie() -> list[dict[str, Any]]:
    """One set of each kind."""
    found = []
    for name, load, classes in (("diabetes", load_diabetes, False), ("iris", load_iris, True)):
        X, y = load(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
        found.append(beside_mapie(name, X, X_test, y, y_test, classes))
    return found


# Where it is guaranteed.


def draw(random: Any, n: int, classes: bool) -> tuple[Any, Any]:
    """A known distribution: noise that grows with a column; or three classes that overlap."""
    X = random.uniform(-1, 1, size=(n, 3))
    if not classes:
        return X, np.sin(3 * X[:, 0]) + (0.2 + np.abs(X[:, 1])) * random.standard_normal(n)
    share = np.exp(2 * X)
    share /= share.sum(axis=1, keepdims=True)
    return X, (random.uniform(size=(n, 1)) > share.cumsum(axis=1)).sum(axis=1).clip(0, 2)


WAYS: dict[str, dict[str, Any]] = {
    "honest": {"regime": "honest", "honest_fraction": 0.5},
    "regrown": {"alpha_selection": "regrown"},
    # Here alpha is chosen, by each part without its fold.
    "nested": {"regime": "cross-validated", "alpha_selection": "nested", "alphas": None},
}


def run_draws(n_draws: int, known: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Mean coverage over draws of rows, fits and new rows; the guarantee is of this mean."""
    found = list(known)
    for way, given in WAYS.items():
        if any(record["way"] == way for record in found):
            continue
        n = 200 if way == "honest" else 100
        covered: dict[str, list[float]] = defaultdict(list)
        levels = {}
        for seed in range(n_draws):
            random = np.random.default_rng([seed, n])
            for classes in (False, True):
                (X, y), (new, target) = (draw(random, m, classes) for m in (n, 50))
                model = (KPPClassifier if classes else KPPRegressor)(
                    "extra-trees",
                    n_estimators=8,
                    cv=KFold(5, shuffle=True, random_state=seed),
                    random_state=seed,
                    main_effects=None,
                    **({"alphas": [0.1 if classes else 0.01]} | given),
                ).fit(X, y)
                if classes:
                    for method in ("lac", "aps"):
                        own = model.predict_set(new, guaranteed=GUARANTEED, method=method)
                        assert own.is_guarantee
                        hit = own.sets[np.arange(50), target]
                        covered[f"sets, {method}"].append(float(hit.mean()))
                        levels[f"sets, {method}"] = own.coverage
                    continue
                for width in ("constant", "adaptive"):
                    own = model.predict_interval(new, guaranteed=GUARANTEED, width=width)
                    assert own.is_guarantee
                    hit = (own.lower <= target) & (target <= own.upper)
                    covered[f"intervals, {width}"].append(float(hit.mean()))
                    levels[f"intervals, {width}"] = own.coverage
                    # How it would be with errors of rows that the predictor has seen.
                    reach = np.quantile(np.abs(y - model.predict(X)), own.coverage)
                    wrong = np.abs(target - model.predict(new)) <= reach
                covered["errors of seen rows"].append(float(wrong.mean()))
                levels["errors of seen rows"] = own.coverage
        for what, shares in covered.items():
            mean, error = np.mean(shares), np.std(shares, ddof=1) / np.sqrt(n_draws)
            found.append(
                {
                    "way": way,
                    "what": what,
                    "n_draws": n_draws,
                    "level": levels[what],
                    "guaranteed": GUARANTEED,
                    "coverage": float(mean),
                    "standard_error": float(error),
                    "share_of_draws_below": float(np.mean(np.array(shares) < GUARANTEED)),
                }
            )
            print(found[-1], flush=True)
        yield found


# The page.


def by_set(records: list[dict[str, Any]], key: str, what: str) -> dict[str, float]:
    """Mean over the splits of each set that has it."""
    of: dict[str, list[float]] = defaultdict(list)
    for record in records:
        if key in record:
            of[record["set"]].append(record[key][what])
    return {name: float(np.mean(values)) for name, values in of.items()}


def deviations(records: list[dict[str, Any]], key: str) -> dict[str, float]:
    """Coverage less the level, in standard errors of test rows and of ranked rows together."""
    of: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        if key in record:
            of[record["set"]].append(record)
    found = {}
    for name, own in of.items():
        n_test, n = sum(r["n_test"] for r in own), own[0]["n"]
        mean = sum(r["n_test"] * r[key]["coverage"] for r in own) / n_test
        # Splits share rows: their ranked rows count once.
        error = np.sqrt(LEVEL * (1 - LEVEL) * (1 / n_test + 1 / n))
        found[name] = float((mean - LEVEL) / error)
    return found


KINDS = {
    "constant": "intervals, constant width",
    "adaptive": "intervals, adaptive width",
    "lac": "sets, `lac`",
    "aps": "sets, `aps`",
    "aps_random": "sets, `aps` with its random step",
    "per_class": "sets, `lac`, per class",
}


def page(result: dict[str, Any]) -> str:
    lines = ["# Coverage", "", describe(result), ""]
    records = [*result.get("sets", []), *result.get("suite", [])]
    if records:
        lines += _sets_page(records)
    if result.get("losses"):
        lines += _losses_page(result["losses"])
    if result.get("exposures"):
        lines += _exposures_page(result["exposures"])
    if result.get("mapie"):
        lines += _mapie_page(result["mapie"])
    if result.get("draws"):
        lines += _draws_page(result["draws"])
    return "\n".join(lines) + "\n"


def _sets_page(records: list[dict[str, Any]]) -> list[str]:
    groups = list(dict.fromkeys(record["group"] for record in records))
    two = float(norm.cdf(2) - norm.cdf(-2))
    lines = [
        f"## On real splits, {LEVEL:.0%} asked for",
        "",
        f"The default model, at most {MOST_ROWS:,} rows, a fifth of them for testing; development "
        f"sets below {FEW_ROWS:,} training rows on {SPLITS} splits, the others on one. A set's "
        "standard error counts its test rows and the rows that were ranked; by chance alone "
        f"{two:.0%} of sets are within two.",
        "",
        "| group | kind | sets | mean coverage | within 2 standard errors | below by more | above "
        "by more | least coverage of a set | size or width |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for group in groups:
        own = [record for record in records if record["group"] == group]
        for key, title in KINDS.items():
            covered = by_set(own, key, "coverage")
            if not covered:
                continue
            z = np.array(list(deviations(own, key).values()))
            size = by_set(own, key, "width" if key in ("constant", "adaptive") else "size")
            lines.append(
                f"| {group} | {title} | {len(z)} | {np.mean(list(covered.values())):.3f} | "
                f"{np.sum(np.abs(z) <= 2)} | {np.sum(z < -2)} | {np.sum(z > 2)} | "
                f"{min(covered.values()):.3f} | {np.mean(list(size.values())):.3f} |"
            )
    lines += [
        "",
        "Widths are in standard deviations of the target. Per class needs 9 rows of every class.",
        "",
        "## Adaptive against constant widths",
        "",
        "Geometric means over sets of the ratio adaptive to constant, and means of the least "
        "coverage of a fifth of the test rows, by prediction and by width. The interval score is "
        "the width plus 20 times the distance of the targets outside: less is better.",
        "",
        "| sets | width | narrower on | interval score | better on | worst fifth by prediction, "
        "constant | adaptive | worst fifth by width, constant | adaptive |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for group in groups:
        own = [record for record in records if record["group"] == group and "constant" in record]
        if not own:
            continue
        cells = []
        for what in ("width", "score"):
            one, two_ = (by_set(own, key, what) for key in ("constant", "adaptive"))
            ratio = np.array([two_[name] / one[name] for name in one if one[name] > 0])
            cells += [
                f"{np.exp(np.log(ratio).mean()):.3f}",
                f"{np.sum(ratio < 1)} of {len(ratio)}",
            ]
        for what in ("worst_by_prediction", "worst_by_width"):
            for key in ("constant", "adaptive"):
                cells.append(f"{np.mean(list(by_set(own, key, what).values())):.3f}")
        lines.append(f"| {group} | " + " | ".join(cells) + " |")
    lines += ["", "Set by set:", "", "| set | kind | training rows | coverage | size or width |"]
    lines.append("|---|---|---|---|---|")
    rows = {record["set"]: record["n"] for record in records}
    for key, title in KINDS.items():
        covered = by_set(records, key, "coverage")
        size = by_set(records, key, "width" if key in ("constant", "adaptive") else "size")
        lines += [
            f"| {name} | {title} | {rows[name]} | {covered[name]:.3f} | {size[name]:.3f} |"
            for name in covered
        ]
    return [*lines, ""]


def _losses_page(records: list[dict[str, Any]]) -> list[str]:
    made = ", ".join(sorted({record["kpp"] for record in records}))
    minutes = sum(record["fit_cpu_s"] for record in records) / 60
    lines = [
        "## Widths of other losses",
        "",
        f"Models of each loss with {LOSS_TREES} trees, the default blend, on the development sets "
        f"of numbers, at most {LOSS_ROWS:,} rows of each and a fifth of them for testing, {SPLITS} "
        "splits; both kinds of width of one and the same fit. Poisson's loss where no target is "
        f"negative; counts are {' and '.join(COUNTS)}. Geometric means over sets of the ratio "
        f"adaptive to constant, and means; {LEVEL:.0%} asked for. The fits took {minutes:.0f} "
        f"minutes of one core. By kpp {made}.",
        "",
        "| loss | sets | width | narrower on | interval score | better on | coverage, constant | "
        "adaptive | worst fifth by prediction, constant | adaptive | score of the better kind, to "
        "adaptive ones of squared loss |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    kinds: list[tuple[str, str, tuple[str, ...] | None]] = [(loss, loss, None) for loss in LOSSES]
    kinds.append(("poisson, counts", "poisson", COUNTS))
    squared = by_set([own for own in records if own["loss"] == "squared"], "adaptive", "score")
    for title, loss, names in kinds:
        own = [r for r in records if r["loss"] == loss and (names is None or r["set"] in names)]
        if not own:
            continue
        one, two = (by_set(own, key, "score") for key in ("constant", "adaptive"))
        cells = []
        for what in ("width", "score"):
            fixed, free = (by_set(own, key, what) for key in ("constant", "adaptive"))
            ratio = np.array([free[name] / fixed[name] for name in fixed])
            cells += [
                f"{np.exp(np.log(ratio).mean()):.3f}",
                f"{np.sum(ratio < 1)} of {len(ratio)}",
            ]
        for what in ("coverage", "worst_by_prediction"):
            for key in ("constant", "adaptive"):
                cells.append(f"{np.mean(list(by_set(own, key, what).values())):.3f}")
        best = "adaptive" if sum(np.log(two[k] / one[k]) for k in one) < 0 else "constant"
        beside = by_set(own, best, "score")
        ratio = np.array([beside[name] / squared[name] for name in beside])
        cells.append(f"{np.exp(np.log(ratio).mean()):.3f} ({best})")
        lines.append(f"| {title} | {len(one)} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Interval score, adaptive to constant, set by set:",
        "",
        f"| set | training rows | {' | '.join(LOSSES)} |",
        f"|---|---|{'---|' * len(LOSSES)}",
    ]
    rows = {record["set"]: record["n"] for record in records}
    for name, n in rows.items():
        cells = []
        for loss in LOSSES:
            own = [r for r in records if r["set"] == name and r["loss"] == loss]
            two, one = (by_set(own, key, "score") for key in ("adaptive", "constant"))
            cells.append(f"{two[name] / one[name]:.3f}" if own else "")
        lines.append(f"| {name} | {n} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _exposures_page(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Counts and exposures",
        "",
        f"Made counts, rows watched for {SHORTEST:g} to {LONGEST:g}, on a logarithmic scale; "
        f"{records[0]['n_draws']} draws of 400 rows of the fit and 1,000 new ones, `extra-trees` "
        f'with 20 trees and `loss="poisson"`, {LEVEL:.0%} asked for. Without the offset intervals '
        "are of rates, and are multiplied by the exposure here. Widths and interval scores are in "
        f"counts; the standard error of a coverage is at most "
        f"{max(own['standard_error'] for own in records):.3f}. By kpp {records[0]['kpp']}.",
        "",
        "| widths | offset | coverage | shortest third | longest third | width | interval score |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {own['width_kind']} | {'given' if own['offset'] else 'not given'} | "
        f"{own['coverage']:.3f} | {own['short']:.3f} | {own['long']:.3f} | {own['width']:.2f} | "
        f"{own['score']:.2f} |"
        for own in records
    ]
    return [*lines, ""]


def _mapie_page(records: list[dict[str, Any]]) -> list[str]:
    by_processor = all(own.get("clock") == "processor" for own in records)
    clock = "Processor time of one thread" if by_processor else "Wall clock, beside other work"
    lines = [
        "## Beside MAPIE",
        "",
        "The same model and folds; constant widths, and `lac` by its crossval rule. MAPIE fits the "
        "model anew without each fold, each time with folds of its own for alpha and weights. "
        f"{clock}. The ratio is of the time beyond one fit of the model: what a user waits for who "
        "has it.",
        "",
        "| set | coverage, kpp | MAPIE | size or width, kpp | MAPIE | kpp, fit, s | kpp, beyond, s "
        "| MAPIE, fits, s | MAPIE, ranks, s | ratio | at least 20 |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for own in records:
        time_of = own["seconds"]
        lines.append(
            f"| {own['set']} | {own['kpp']['coverage']:.3f} | {own['mapie']['coverage']:.3f} | "
            f"{own['kpp'][own['size']]:.3f} | {own['mapie'][own['size']]:.3f} | "
            f"{time_of['kpp fit']:.2f} | {time_of['kpp']:.4f} | {time_of['mapie fit']:.2f} | "
            f"{time_of['mapie']:.3f} | {own['ratio']:.0f} | "
            f"{'yes' if own['ratio'] >= 20 else 'no'} |"
        )
    return [*lines, ""]


def _draws_page(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Where it is guaranteed",
        "",
        f"`guaranteed={GUARANTEED}`: alpha is given (nested: chosen by every part for itself), "
        "five equal folds at random, "
        f"{records[0]['n_draws']:,} draws of 100 rows in the folds and 50 new ones. It is "
        "a guarantee of the mean over draws and new rows, not of each draw. "
        '"Errors of seen rows": of the model itself, on its own rows, '
        "which nobody should do.",
        "",
        "| model | what | level | mean coverage | standard error | draws below |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {own['way']} | {own['what']} | {own['level']:.4f} | {own['coverage']:.4f} | "
        f"{own['standard_error']:.4f} | {own['share_of_draws_below']:.3f} |"
        for own in records
    ]
    return [*lines, ""]


PARTS = ("sets", "mapie", "draws", "suite", "losses", "exposures")
# Their figures name the version that made them, so that others keep theirs.
DATED = {"losses", "exposures"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--parts", nargs="*", default=list(PARTS))
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="small data that come along")
    asked = parser.parse_args()
    path = asked.out / "interval_coverage.json"
    result = json.loads(path.read_text()) if path.exists() else {}
    result = versions() | result if DATED.issuperset(asked.parts) else result | versions()
    for part in asked.parts:
        known = result.get(part, [])
        found: Iterable[list[dict[str, Any]]]
        if part == "draws":
            found = run_draws(5 if asked.quick else asked.draws, known)
        elif part == "exposures":
            found = run_exposures(3 if asked.quick else EXPOSURE_DRAWS, known)
        elif asked.quick:
            quick = {
                "sets": quick_sets,
                "mapie": quick_mapie,
                "suite": list,
                "losses": quick_losses,
            }
            found = [quick[part]()]
        elif part == "losses":
            found = run_losses(asked.data_dir, known)
        elif part == "mapie":
            found = run_mapie(asked.data_dir, known)
        else:
            found = run_sets(asked.data_dir, part == "suite", known)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits that stop early: they are what they are
            for records in found:
                result[part] = records
                write("interval_coverage", result, page(result), asked.out)


if __name__ == "__main__":
    main()
