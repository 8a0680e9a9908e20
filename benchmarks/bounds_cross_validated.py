"""Bounds of models that have used every row, beside those of the honest regime.

Run ``python benchmarks/bounds_cross_validated.py --data-dir FOLDER --out benchmarks/results``. The
folder holds ``<name>.csv.gz`` and ``suite.json``, which names the sets. For every set: 20% test
rows, not stratified; on the others ``regime="cross-validated"`` with 5, 3 and 2 folds of extra
trees, whose choices are counted, and with 3 and 2 of the default blend, each part of which chooses
for itself (``alpha_selection="nested"``); and ``regime="honest", center="partition"`` with both.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from bounds_honest import DELTA, read
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from timing import describe, versions

from kpp import KPPClassifier, KPPRegressor, risk_bounds
from kpp.bounds import bounded_prediction, held_out_binomial

MAX_ROWS = 10_000
FOLDS = (5, 3, 2)
# Of a model: its name in the results, in words, and its parameters. Regression leaves out 2 folds.
COUNTED = {f"cv{n}": (f"{n} folds", {"forest": "extra-trees", "cv": n}) for n in FOLDS}
NESTED = {
    f"nested{n}": (
        f"blend, {n} folds, nested",
        {"forest": "blend", "cv": n, "alpha_selection": "nested"},
    )
    for n in FOLDS[1:]
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = COUNTED | NESTED
BLEND_TREES = 100
# Of an honest model: its name in the results, and its forest.
HONEST = {"honest": "extra-trees", "honest_blend": "blend"}
ENOUGH_ROWS, MOST_EXCESS = 1000, 0.05
SMALL_PRICE = 0.02
CENTRE = "held-out bound of the centre"
TASKS = ("classification", "regression")
GROUPS = ("development", "suite", "development_large")


def rows_of(name: str, task: str, data_dir: str, max_rows: int) -> tuple[Any, Any]:
    if name == "breast_cancer":  # scikit-learn's own
        X, y = load_breast_cancer(return_X_y=True)
        return X, y
    return read(name, task, data_dir, max_rows)


def setting(task: str, X: Any, y: Any) -> tuple[bool, Any, list[Any], dict[str, Any]]:
    """Whether there are classes, the estimator, the split, and what bounds are told."""
    classes = task == "classification"
    # Of a benchmark set nobody knows the limits of Y; all of its rows have these.
    known: dict[str, Any] = {} if classes else {"y_range": (float(y.min()), float(y.max()))}
    # Copies are taken for draws: the figures are of bounds, not of what they may claim here.
    known["independent_duplicates"] = True
    split = train_test_split(X, y, test_size=0.2, random_state=0)
    return classes, KPPClassifier if classes else KPPRegressor, split, known


def measure(task: str, name: str, X: Any, y: Any, n_estimators: int) -> dict[str, Any]:
    classes, estimator, (X_train, X_test, y_train, y_test), known = setting(task, X, y)
    row: dict[str, Any] = {
        "data": name,
        "n_train": len(X_train),
        "n_classes": len(np.unique(y)) if classes else 0,
    }
    for key, (_, parameters) in MODELS.items():
        n_folds, is_nested = parameters["cv"], key in NESTED
        if n_folds == FOLDS[-1] and not classes:
            continue
        start = time.perf_counter()
        model = estimator(
            regime="cross-validated",
            n_estimators=min(n_estimators, BLEND_TREES) if is_nested else n_estimators,
            n_jobs=-1,
            random_state=0,
            **parameters,
        ).fit(X_train, y_train)
        seconds = time.perf_counter() - start
        # The test rows without their labels show where the folds disagree.
        rows = {"unlabelled": X_test} if classes else {}
        bounds = risk_bounds(model, X_train, y_train, delta=DELTA, **rows, **known)
        halves = risk_bounds(model, X_train, y_train, delta=DELTA / 2, **known)
        sizes = model.fold_predictors_.fold_sizes
        n = model.fit_record_.n_candidates
        own: dict[str, Any] = {
            "seconds": seconds,
            "n_candidates": n,
            "price": float(np.log(n_folds * n / DELTA) / sizes.min()),
            "bounds": {b.name.removeprefix("cross-validated "): b.total for b in bounds},
            "left_out": {b.name.removeprefix("cross-validated "): b.empirical_risk for b in bounds},
            "test": {
                b.name.removeprefix("cross-validated "): tested(model, X_test, y_test, b)
                for b in bounds
            },
            "model": loss(y_test, model.predict(X_test), classes=classes),
            "level": bounds[0].trivial_level,
        }
        if classes:
            # Two statements, each with half of delta: the smaller may be taken.
            own["either"] = min(
                halves["cross-validated vote"].total, halves["cross-validated average"].total
            )
            # What no bound of this kind can go below: all rows for one predictor, no choice, no
            # factor, at the error of the rows that were left out.
            n_errors = round(own["left_out"]["randomised"] * len(y_train))
            own["limit"] = float(held_out_binomial(n_errors, len(y_train), DELTA))
            drawn = bounded_prediction(model, X_test, bounds["cross-validated randomised"], key=0)
            own["keyed"] = float(np.mean(drawn != y_test))
        row[key] = own
    return row | measure_honest(task, X, y, n_estimators)


def measure_honest(task: str, X: Any, y: Any, n_estimators: int) -> dict[str, Any]:
    """The honest regime, by the name of each forest in the results."""
    trees = {"extra-trees": n_estimators, "blend": min(n_estimators, BLEND_TREES)}
    return {key: of_honest(task, X, y, f, trees[f]) for key, f in HONEST.items()}


def of_honest(task: str, X: Any, y: Any, forest: str, n_estimators: int) -> dict[str, Any]:
    classes, estimator, (X_train, X_test, y_train, y_test), known = setting(task, X, y)
    start = time.perf_counter()
    honest = estimator(
        forest,
        regime="honest",
        center="partition",
        n_estimators=n_estimators,
        random_state=0,
    ).fit(X_train, y_train)
    seconds = time.perf_counter() - start
    bounds = risk_bounds(honest, X_train, y_train, delta=DELTA, **known)
    others = [b.total for b in bounds if b.name.startswith("PAC-Bayes")]
    (fit,) = honest.fits_
    assert fit.center is not None
    scores = honest.at(X_test)
    at = honest.map_.on(scores)
    center = np.column_stack([at.matvec(w) for w in fit.center.node_coef]) + fit.center.intercept
    if classes:
        chosen = honest.classes_[honest._task.loss.classes(center)]
    else:
        chosen = np.clip(center[:, 0], *known["y_range"])
    return {
        "seconds": seconds,
        "centre": bounds[CENTRE].total,
        "model_bound": min(others) if others else None,
        "model": loss(y_test, honest.predict(X_test), classes=classes),
        "centre_test": loss(y_test, chosen, classes=classes),
    }


def loss(y: Any, prediction: Any, *, classes: bool) -> float:
    return float(np.mean(prediction != y) if classes else np.mean(np.square(prediction - y)))


def tested(model: Any, X: Any, y: Any, bound: Any) -> float:
    """The risk that a bound speaks of, on the test rows."""
    kind = bound.name.removeprefix("cross-validated ")
    if kind == "randomised":
        scores = model.fold_predictors_.scores(model.at(X))
        chosen = [model.classes_[model._task.answers(own).argmax(axis=1)] for own in scores]
        return float(np.mean([c != y for c in chosen]))
    found = bounded_prediction(model, X, bound)
    if kind in ("vote", "vote by dissent", "average", "model"):
        return float(np.mean(found != y))
    if kind == "squared loss":
        return float(np.mean(np.square(found - y)))
    codes = np.searchsorted(model.classes_, y)
    if kind == "log loss":
        return float(-np.mean(np.log(found[np.arange(len(y)), codes])))
    square = np.square(found - np.eye(found.shape[1])[codes]).sum(axis=1).mean()
    return float(square / 2 if found.shape[1] == 2 else square)


def class_table(rows: list[dict[str, Any]]) -> list[str]:
    heads = ["data", "n", "classes", "majority"]
    for n_folds in FOLDS:
        own = ["test of the model", "its bound", "part by key: test", "bound", "vote: bound"]
        own += ["by dissent", "vote or average", "limit"]
        heads += [f"{n_folds} folds: {own[0]}", *own[1:]]
    heads += ["Brier (3 folds): test", "bound", "of a constant"]
    heads += ["honest: test of the model", "its bound", "test of the centre", "its bound"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        honest = row["honest"]
        shown = [row["cv5"]["level"]]
        for n_folds in FOLDS:
            own = row[f"cv{n_folds}"]
            shown += [own["model"], own["bounds"]["model"], own["keyed"]]
            shown += [own["bounds"][name] for name in ("randomised", "vote", "vote by dissent")]
            shown += [own["either"], own["limit"]]
        brier = row["cv3"]
        shown += [brier["test"]["Brier score"], brier["bounds"]["Brier score"]]
        shown += [
            row.get("brier_level", np.nan),
            honest["model"],
            np.nan if honest["model_bound"] is None else honest["model_bound"],
            honest["centre_test"],
            honest["centre"],
        ]
        lines.append(
            f"| {row['data']} | {row['n_train']:,} | {row['n_classes']} | "
            + " | ".join(f"{value:.3f}" for value in shown)
            + " |"
        )
    return lines


def nested_table(rows: list[dict[str, Any]]) -> list[str]:
    """Models whose parts choose for themselves."""
    own_heads = ["N", "test of the model", "its bound", "part by key: test", "bound"]
    own_heads += ["vote: bound", "by dissent", "vote or average", "limit", "Brier: test", "bound"]
    heads = ["data", "n", "majority"]
    heads += [f"{name}: {h}" for name, _ in NESTED.values() for h in own_heads]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        shown: list[Any] = [row["cv5"]["level"]]
        for key in NESTED:
            own = row[key]
            bounds = own["bounds"]
            shown += [own["n_candidates"], own["model"], bounds["model"], own["keyed"]]
            shown += [bounds[name] for name in ("randomised", "vote", "vote by dissent")]
            shown += [own["either"], own["limit"], own["test"]["Brier score"]]
            shown += [bounds["Brier score"]]
        cells = [str(v) if isinstance(v, int) else f"{v:.3f}" for v in shown]
        lines.append(f"| {row['data']} | {row['n_train']:,} | " + " | ".join(cells) + " |")
    return lines


def number_table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| data | n | variance | 5 folds: log(QN/delta)/n_q | test of the model | test | bound "
        "| 3 folds: log(QN/delta)/n_q | test | bound "
        "| blend, 3 folds, nested: log(QN/delta)/n_q | test of the model | test | bound "
        "| honest: test of the model | test of the centre | bound of the centre |",
        "|---" * 17 + "|",
    ]
    for row in rows:
        five, three, honest, nested = (row[k] for k in ("cv5", "cv3", "honest", "nested3"))
        level = five["level"]
        lines.append(
            f"| {row['data']} | {row['n_train']:,} | {level:.4g} | {five['price']:.3f} "
            f"| {five['model'] / level:.3f} | {five['test']['squared loss'] / level:.3f} "
            f"| {five['bounds']['squared loss'] / level:.3f} | {three['price']:.3f} "
            f"| {three['test']['squared loss'] / level:.3f} "
            f"| {three['bounds']['squared loss'] / level:.3f} | {nested['price']:.3f} "
            f"| {nested['model'] / level:.3f} | {nested['test']['squared loss'] / level:.3f} "
            f"| {nested['bounds']['squared loss'] / level:.3f} | {honest['model'] / level:.3f} "
            f"| {honest['centre_test'] / level:.3f} | {honest['centre'] / level:.3f} |"
        )
    return lines


GUARANTEED: dict[str, Any] = {
    "one part for each row, by its key": lambda own: own["bounds"]["randomised"],
    "the vote or the average": lambda own: own["either"],
    "the vote by its dissent (unlabelled rows)": lambda own: own["bounds"]["vote by dissent"],
    "the model by its dissent (unlabelled rows)": lambda own: own["bounds"]["model"],
    "limit": lambda own: own["limit"],
}


def average_table(rows: list[dict[str, Any]]) -> list[str]:
    """What is guaranteed, and at what test error, on average over sets of two classes."""
    shown: list[tuple[str, float, float]] = []

    def add(name: str, pairs: list[tuple[float, float]]) -> None:
        bound, test = np.mean(pairs, axis=0)
        shown.append((name, float(bound), float(test)))

    for key, (model, _) in MODELS.items():
        of = [row[key] for row in rows]
        add(f"{model}: one part by key", [(o["bounds"]["randomised"], o["keyed"]) for o in of])
        unlabelled = [(o["bounds"]["model"], o["model"]) for o in of]
        add(f"{model}: the model, with unlabelled rows", unlabelled)
    for key, forest in HONEST.items():
        centres = [row[key] for row in rows if key in row]
        if centres:
            add(f"honest, {forest}: its centre", [(o["centre"], o["centre_test"]) for o in centres])
            add(f"honest, {forest}: the model", [(o["model_bound"], o["model"]) for o in centres])
    lines = [
        f"On average over these {len(rows)} sets:",
        "",
        "| of what | guaranteed error | test error |",
        "|---|---|---|",
        *(f"| {name} | {b:.3f} | {t:.3f} |" for name, b, t in sorted(shown, key=lambda x: x[1])),
        "",
    ]
    for key, forest in HONEST.items():
        smaller = [
            f"{sum(row[own]['bounds']['randomised'] < row[key]['centre'] for row in rows)} "
            f"({model})"
            for own, (model, _) in MODELS.items()
            if all(key in row for row in rows)
        ]
        if smaller:
            lines += [
                f"Sets on which the number of one part by key is smaller than that of the centre "
                f"of {forest}: {', '.join(smaller)}.",
                "",
            ]
    return lines


def count_table(rows: list[dict[str, Any]], which: str) -> list[str]:
    """How many guaranteed errors are below that of the majority class."""
    lines = [
        f"Guaranteed error below that of the majority class, of {len(rows)} sets of two classes "
        f"({which}):",
        "",
        "| of what | " + " | ".join(name for name, _ in MODELS.values()) + " |",
        "|---" * (len(MODELS) + 1) + "|",
    ]
    for name, of in GUARANTEED.items():
        counts = [sum(of(row[key]) < row[key]["level"] for row in rows) for key in MODELS]
        lines.append(f"| {name} | " + " | ".join(map(str, counts)) + " |")
    return [*lines, ""]


def class_verdict(rows: list[dict[str, Any]]) -> list[str]:
    binary = [row for row in rows if row["n_classes"] == 2]
    by_group = {group: [row for row in binary if row["group"] == group] for group in GROUPS}
    small, suite, large = by_group.values()
    lines = count_table(small + suite, "development sets and suite")
    lines += average_table(small + suite)
    if small and suite:
        lines += count_table(small, "development sets alone")
    if large:
        lines += count_table(large, "large development sets")
    for key, (model, _) in MODELS.items():
        out_of_reach = [row for row in binary if row[key]["limit"] >= row[key]["level"]]
        shown = [
            f"{row['data']} ({row[key]['limit']:.3f}, majority {row[key]['level']:.3f}, "
            f"left out {row[key]['left_out']['randomised']:.3f}, n = {row['n_train']:,})"
            for row in out_of_reach
        ]
        lines.append(f"- {model}, out of reach even at the limit: {'; '.join(shown)}.")
        many = [row for row in rows if row["n_train"] >= ENOUGH_ROWS]
        if many:
            excess = [
                row[key]["bounds"]["randomised"] - row[key]["test"]["randomised"] for row in many
            ]
            lines.append(
                f"- {model}, {len(many)} sets of at least {ENOUGH_ROWS:,} training rows: "
                f"the bound of the randomised predictor exceeds its test error by "
                f"{np.mean(excess):.3f} on average, {np.median(excess):.3f} in the median (target "
                f"{MOST_EXCESS})."
            )
    for key, (model, _) in MODELS.items():
        pairs = [(row[key], row["honest"]) for row in rows]
        lines.append(
            f"- {model}, against the honest regime: the model's test error is lower on "
            f"{sum(own['model'] < other['model'] for own, other in pairs)} of {len(pairs)} sets "
            f"and higher on {sum(own['model'] > other['model'] for own, other in pairs)}, "
            f"{np.mean([own['model'] - other['model'] for own, other in pairs]):+.4f} on average; "
            "the guaranteed number (vote or average, against the bound of the centre) is smaller "
            "on "
            f"{sum(own['either'] < other['centre'] for own, other in pairs)}, the one of the "
            "randomised predictor on "
            f"{sum(own['bounds']['randomised'] < other['centre'] for own, other in pairs)}; "
            "the one of the model itself on "
            f"{sum(own['bounds']['model'] < other['centre'] for own, other in pairs)}; against the "
            "bound of the honest model itself (not of its centre) the last one on "
            f"{sum(own['bounds']['model'] < other['model_bound'] for own, other in pairs)}. On "
            "average the guaranteed error of the model is "
            f"{np.mean([own['bounds']['model'] for own, _ in pairs]):.3f}, that of the honest "
            f"model {np.mean([other['model_bound'] for _, other in pairs]):.3f} and that of its "
            f"centre {np.mean([other['centre'] for _, other in pairs]):.3f}; their test errors "
            f"{np.mean([own['model'] for own, _ in pairs]):.3f}, "
            f"{np.mean([other['model'] for _, other in pairs]):.3f} and "
            f"{np.mean([other['centre_test'] for _, other in pairs]):.3f}."
        )
        broken = [
            f"{row['data']}: {name}"
            for row in rows
            for name, bound in row[key]["bounds"].items()
            if bound < row[key]["test"][name]
        ]
        lines.append(
            f"- {model}: bounds below the risk on the test rows, which is an estimate "
            f"itself: {len(broken)}{': ' + ', '.join(broken) if broken else ''}."
        )
    return lines


def number_verdict(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for key in ("cv5", "cv3", "nested3"):
        model = MODELS[key][0]
        cheap = [row for row in rows if row[key]["price"] < SMALL_PRICE]
        if cheap:
            ratios = [row[key]["bounds"]["squared loss"] / row[key]["level"] for row in cheap]
            below = sum(ratio < 1 for ratio in ratios)
            lines.append(
                f"- {model}, log(QN/delta)/n_q below {SMALL_PRICE} on {len(cheap)} sets: "
                f"the median bound of the squared loss is {np.median(ratios):.3f} of the variance "
                f"(target: below 1); below it on {below}."
            )
        pairs = [(row[key], row["honest"]) for row in rows]
        better = sum(own["model"] < other["model"] for own, other in pairs)
        ratio = np.median([own["model"] / other["model"] for own, other in pairs])
        smaller = sum(own["bounds"]["squared loss"] < other["centre"] for own, other in pairs)
        of_bounds = [own["bounds"]["squared loss"] / other["centre"] for own, other in pairs]
        of_blend = []
        if all("honest_blend" in row for row in rows):
            ratios = [
                row[key]["bounds"]["squared loss"] / row["honest_blend"]["centre"] for row in rows
            ]
            of_blend.append(
                f"- {model}, against the centre of an honest blend: the guaranteed number is "
                f"smaller on {sum(ratio < 1 for ratio in ratios)}, the median ratio "
                f"{np.median(ratios):.3f}."
            )
        broken = [
            row["data"]
            for row in rows
            if row[key]["bounds"]["squared loss"] < row[key]["test"]["squared loss"]
        ]
        lines += [
            f"- {model}, against the honest regime: the model's squared test error is lower "
            f"on {better} of {len(pairs)} sets, the median ratio {ratio:.3f}; the guaranteed "
            f"number is smaller on {smaller}, the median ratio {np.median(of_bounds):.3f}; against "
            "the centre, of which the honest bound speaks, the squared test error has the median "
            f"ratio {np.median([o['model'] / h['centre_test'] for o, h in pairs]):.3f}.",
            *of_blend,
            f"- {model}: bounds below the squared error on the test rows: {len(broken)}"
            f"{': ' + ', '.join(broken) if broken else ''}.",
        ]
    return lines


def page(result: dict[str, Any]) -> str:
    lines = [
        "# Bounds of cross-validated models",
        "",
        f"Written by `benchmarks/bounds_cross_validated.py`. {describe(result)} delta = {DELTA}, "
        "one split. With 5, 3 and 2 folds: extra trees, of which each fold has its share, and one "
        "alpha for all folds, counted in N. Nested: the default blend, of which each fold has a "
        "whole one, and each part chooses alphas and weights on its own rows, so that N = 1.",
        "",
        'Each bound holds with probability 0.95 on its own, for `regime="cross-validated"`; those '
        "of the randomised predictor (one part, for every row by its key) and of the vote hold "
        "together. Those by dissent take the test rows without their labels, to compare vote and "
        "model with the parts. `vote or average` is the smaller of the two, each at half of delta, "
        "so that it may be taken. `honest` is "
        '`regime="honest", center="partition"`: what is guaranteed there is the held-out bound of '
        "the centre, which has seen half of the rows; the bound of the model itself is the "
        "smaller of its two PAC-Bayes bounds. Errors are bounded by exact tails and other losses "
        "by betting, in both regimes. `limit` is what no bound that counts rows can go "
        "below: the exact binomial bound of one predictor that all rows have tested, with the "
        "error of the left-out rows, nothing chosen and no factor. Nobody knows limits of these "
        "targets beforehand: for regression the range of all rows of the set is taken as if it had "
        "been known, in both regimes. Rows that equal others are taken for independent draws.",
        "",
    ]
    tables = {
        "classification": (class_table, class_verdict, "error"),
        "regression": (number_table, number_verdict, "squared error over the variance"),
    }
    for task, (table, verdict, unit) in tables.items():
        rows = result["rows"].get(task)
        if rows:
            own = result["sizes"][task]
            lines += [f"## {task}: {unit}", ""]
            lines += [
                f"{own['trees']} trees in all (nested, and honest blends: n_estimators = "
                f"{min(own['trees'], BLEND_TREES)} for each part), at most {own['max_rows']:,} "
                "rows of a set.",
                *([own["note"]] if "note" in own else []),
                "",
            ]
            lines += [*verdict(rows), "", *table(rows), ""]
            if task == "classification":
                lines += [*nested_table(rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def save(result: dict[str, Any], out: Path | None) -> None:
    if out:
        out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(result, indent=1) + "\n"
        (out / "bounds_cross_validated.json").write_text(text)
        (out / "bounds_cross_validated.md").write_text(page(result))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", nargs="*", help="only these data sets")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--max-rows", type=int, default=MAX_ROWS)
    parser.add_argument("--resume", action="store_true", help="keep what the folder holds")
    parser.add_argument(
        "--honest-anew", action="store_true", help="measure the honest regime again, nothing else"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    suite = json.loads((Path(arguments.data_dir) / "suite.json").read_text())
    result: dict[str, Any] = {
        **versions(),
        "sizes": {},
        "rows": {},
    }
    known = arguments.out and arguments.out / "bounds_cross_validated.json"
    if (arguments.resume or arguments.honest_anew) and known and known.exists():
        result |= json.loads(known.read_text())
    if arguments.honest_anew:
        for task, rows in result["rows"].items():
            size = result["sizes"][task]
            for row in rows:
                X, y = rows_of(row["data"], task, arguments.data_dir, size["max_rows"])
                row |= measure_honest(task, X, y, size["trees"])
                print(row["data"], *(row[key]["centre"] for key in HONEST), flush=True)
                save(result, arguments.out)
        return
    for group in GROUPS:
        for kind, names in suite.get(group, {}).items():
            task = {"multiclass": "classification"}.get(kind, kind)
            for name in names if task in arguments.tasks else ():
                rows = result["rows"].setdefault(task, [])
                own = {"trees": arguments.trees, "max_rows": arguments.max_rows}
                if result["sizes"].setdefault(task, own) != own:
                    parser.error(f"the folder holds {task} of {result['sizes'][task]}")
                if arguments.sets and name not in arguments.sets:
                    continue
                if any(row["data"] == name for row in rows):
                    continue
                X, y = rows_of(name, task, arguments.data_dir, arguments.max_rows)
                start = time.perf_counter()
                row = {"group": group, **measure(task, name, X, y, arguments.trees)}
                if task == "classification":
                    share = np.bincount(y) / len(y)
                    scale = 1.0 if len(share) == 2 else 2.0
                    row["brier_level"] = scale * float(np.sum(share * (1 - share)) / 2)
                rows.append(row)
                print(name, len(X), round(time.perf_counter() - start, 1), flush=True)
                save(result, arguments.out)
    print(page(result))
    save(result, arguments.out)


if __name__ == "__main__":
    main()
