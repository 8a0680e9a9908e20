"""Bounds of cross-validated models where the truth is known: how often do they fail?

Run ``python benchmarks/cross_validated_truth.py --out benchmarks/results``. Rows fall into finitely
many cells with known probabilities of the labels: the risk of any predictor is a finite sum. Every
draw is a new sample, a new fit and all of its bounds. Then the same with a mistake: choices that
are not counted, weights that are learned on the folds that bound them, folds that follow the
labels, copies of rows in several folds, rows counted where groups are drawn, dissent forgotten, and
stratified folds, which a learner can make use of.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import binom
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from timing import describe, versions

from kpp import KPPClassifier, KPPRegressor, risk_bounds
from kpp.bounds import (
    bounded_prediction,
    folds_binomial,
    folds_kl,
    held_out_binomial,
    kl_inverse,
)

SIDE = 6


def cells(side: int) -> Any:
    return np.array([[a, b] for a in range(side) for b in range(side)], dtype=np.float64)


CELLS, MANY_CELLS = cells(SIDE), cells(14)
N_ROWS, N_FOLDS = 90, 3
DELTA = 0.05
# Alphas to choose among.
ALPHAS = (0.01, 0.1, 1.0)
# Candidates of no worth at all, in the two mistakes that need many.
N_USELESS, N_WEIGHTS = 100_000, 40
# Rows of each cell in folds that follow cell and label.
PER_CELL = 15


def shares(levels: tuple[float, ...]) -> Any:
    """The probability of each label in every cell, shape (n_cells, n_labels)."""
    a, b = CELLS.T.astype(int)
    of_first = np.where((a < SIDE / 2) ^ (b < SIDE / 2), levels[0], levels[1])
    if len(levels) == 2:
        return np.column_stack([1 - of_first, of_first])
    rest = (1 - of_first) / 2
    return np.column_stack([of_first, rest, rest])


def draw(rng: Any, probability: Any, n_rows: int) -> tuple[Any, Any]:
    cell = rng.integers(0, len(CELLS), n_rows)
    label = (rng.random(n_rows)[:, None] > np.cumsum(probability[cell], axis=1)).sum(axis=1)
    return cell, np.minimum(label, probability.shape[1] - 1)


def truth(model: Any, bound: Any, probability: Any, values: Any, key: int | None = None) -> float:
    """The risk that a bound speaks of, over all cells and labels."""
    kind = bound.name.removeprefix("cross-validated ")
    if kind.startswith("randomised") and key is None:
        task, n_labels = model._task, probability.shape[1]
        scores = model.fold_predictors_.scores(model.at(CELLS))
        said = [model.classes_[task.answers(own).argmax(axis=1)] for own in scores]
        wrong = [[s != values[k] for k in range(n_labels)] for s in said]
        return float(np.mean(np.einsum("qkc,ck->qc", np.array(wrong), probability)))
    kind = kind.removesuffix(" by groups")
    if kind == "randomised":
        found: Any = bounded_prediction(model, CELLS, bound, key=key)
    else:
        found = bounded_prediction(model, CELLS, bound)
    if kind in ("randomised", "vote", "vote by dissent", "average", "model"):
        loss = np.array([found != value for value in values]).T
    elif kind == "squared loss":
        loss = np.array([np.square(found - value) for value in values]).T
    else:
        places = np.searchsorted(model.classes_, values)
        full = found[:, places]
        if kind == "log loss":
            loss = -np.log(full)
        else:
            square = np.square(full).sum(axis=1, keepdims=True) - 2 * full + 1
            loss = square / 2 if len(values) == 2 else square
    return float((loss * probability).sum(axis=1).mean())


def right(task: str) -> Callable[[Any], list[dict[str, Any]]]:
    """Draws without a mistake; nested where each part chooses for itself."""
    is_nested, task = task.startswith("nested "), task.removeprefix("nested ")
    levels = {"classes": (0.15, 0.85), "three classes": (0.8, 0.2, 0.0), "numbers": (0.2, 0.8)}
    probability = shares(levels[task])
    values = np.array([0.0, 1.0]) if task == "numbers" else np.arange(probability.shape[1])

    def one(rng: Any) -> list[dict[str, Any]]:
        while True:  # a class is missing less often than once in 10^10 samples
            cell, label = draw(rng, probability, N_ROWS)
            if len(np.unique(label)) == len(values):
                break
        seed = int(rng.integers(2**31 - 1))
        settings: dict[str, Any] = {"cv": N_FOLDS, "random_state": seed, "alphas": ALPHAS}
        settings["regime"] = "cross-validated"
        settings["alpha_selection"] = "nested" if is_nested else "fold-grown"
        if task == "numbers":
            forest: Any = ExtraTreesRegressor(6, max_depth=4, random_state=seed)
            model: Any = KPPRegressor(forest, **settings).fit(CELLS[cell], values[label])
            more: dict[str, Any] = {"y_range": (0.0, 1.0)}
        else:
            forest = ExtraTreesClassifier(6, max_depth=4, random_state=seed)
            model = KPPClassifier(forest, **settings).fit(CELLS[cell], label)
            # Coarse rows, of which some equal those of the fit by chance: the caller may say so.
            more = {"unlabelled": CELLS[rng.integers(0, len(CELLS), 200)]}
        more |= {"independent_duplicates": True, "delta": DELTA}
        report = risk_bounds(model, CELLS[cell], values[label], **more)
        found = [
            {"name": bound.name, "failed": bound.total < truth(model, bound, probability, values)}
            for bound in report
        ]
        if task == "classes":
            by_key = truth(model, report[0], probability, values, key=seed)
            name = f"{report[0].name}, by key"
            found.append({"name": name, "failed": report[0].total < by_key})
        return found

    return one


def grouped(rng: Any) -> list[dict[str, Any]]:
    """Groups of up to five rows of one cell and label, drawn as groups; and counted as rows."""
    probability, n_groups = shares((0.15, 0.85)), 60
    cell, label = draw(rng, probability, n_groups)
    sizes = rng.integers(1, 6, n_groups)
    group = np.repeat(np.arange(n_groups), sizes)
    seed = int(rng.integers(2**31 - 1))
    forest = ExtraTreesClassifier(6, max_depth=4, random_state=seed)
    model = KPPClassifier(
        forest, cv=N_FOLDS, random_state=seed, alphas=ALPHAS, regime="cross-validated"
    ).fit(CELLS[cell[group]], label[group], groups=group)
    report = risk_bounds(
        model,
        CELLS[cell[group]],
        label[group],
        groups=group,
        independent_duplicates=True,
        delta=DELTA,
    )
    found = []
    for bound in report:
        if bound.name.endswith("by groups"):
            assert bound.is_guarantee
            true = truth(model, bound, probability, np.arange(2))
            found.append({"name": bound.name, "failed": bound.total < true})
    return found


def one_mistake(name: str, right_bound: float, wrong_bound: float) -> list[dict[str, Any]]:
    """Both, where every predictor has a risk of one half."""
    return [
        {"name": f"{name}: as it should be", "failed": right_bound < 0.5},
        {"name": f"{name}: with the mistake", "failed": wrong_bound < 0.5},
    ]


def not_counted(rng: Any) -> list[dict[str, Any]]:
    """The best of many coins, and the price of one."""
    sizes = np.full(2, N_ROWS // 2)
    errors = rng.binomial(sizes, 0.5, (N_USELESS, 2)) / sizes
    best = errors[errors.mean(axis=1).argmin()]
    counted = folds_kl(best, sizes, n_candidates=N_USELESS, delta=DELTA)
    return one_mistake("N forgotten", counted, folds_kl(best, sizes, delta=DELTA))


def learned_weights(rng: Any) -> list[dict[str, Any]]:
    """Weights of useless candidates, learned on the rows that then bound the blend."""
    sizes = np.full(N_FOLDS, N_ROWS // N_FOLDS)
    scores = rng.normal(size=(N_ROWS, N_WEIGHTS))
    sign = rng.choice([-1.0, 1.0], N_ROWS)
    weights = np.linalg.lstsq(scores, sign, rcond=None)[0]
    fixed = np.full(N_WEIGHTS, 1 / N_WEIGHTS)
    learned, given = (
        folds_kl((scores @ w * sign <= 0).reshape(N_FOLDS, -1).mean(axis=1), sizes, delta=DELTA)
        for w in (weights, fixed)
    )
    return one_mistake("weights learned freely", given, learned)


def _noise_fit(rng: Any, X: Any, label: Any, cv: Any) -> Any:
    """Trees that know every cell, and a linear layer that follows them."""
    seed = int(rng.integers(2**31 - 1))
    forest = ExtraTreesClassifier(6, max_features=None, random_state=seed)
    model = KPPClassifier(forest, alpha=1e-5, regime="cross-validated", cv=cv, random_state=seed)
    return model.fit(X, label)


def by_label(rng: Any) -> list[dict[str, Any]]:
    """Folds that hold every pair of cell and label alike, on labels that are coins."""
    cell = np.repeat(np.arange(len(MANY_CELLS)), PER_CELL)
    label = rng.integers(0, 2, len(cell))
    order = np.lexsort((rng.random(len(cell)), label, cell))
    fold = np.empty(len(cell), dtype=int)
    fold[order] = np.arange(len(cell)) % N_FOLDS
    rows = np.arange(len(cell))
    leaking = [(rows[fold != q], rows[fold == q]) for q in range(N_FOLDS)]
    drawn = MANY_CELLS[rng.integers(0, len(MANY_CELLS), len(cell))]
    X = MANY_CELLS[cell]
    return [
        *_coins("folds by cell and label", rng, drawn, label, N_FOLDS, is_right=True),
        *_coins("folds by cell and label", rng, X, label, leaking, is_right=False),
    ]


def rows_for_groups(rng: Any) -> list[dict[str, Any]]:
    """Groups of 200 rows that are right or wrong together, each a coin; counted by rows."""
    n_groups, size = 4, 200
    wrong = rng.integers(0, 2, (N_FOLDS, n_groups))
    by_groups = folds_kl(wrong.mean(axis=1), [n_groups] * N_FOLDS, delta=DELTA)
    by_rows = folds_binomial(size * wrong.sum(axis=1), [size * n_groups] * N_FOLDS, delta=DELTA)
    return one_mistake("rows counted for groups", by_groups, by_rows)


def forgotten_dissent(rng: Any) -> list[dict[str, Any]]:
    """Three parts of which two are wrong in each of three places of probability 0.1.

    A part is wrong with probability 0.2, and the vote with 0.3.
    """
    n_rows, place = 1500, 0.1
    errors = rng.binomial(n_rows, 2 * place, N_FOLDS)
    mean = folds_binomial(errors, [n_rows] * N_FOLDS, delta=DELTA / 2)
    not_of_one_mind = held_out_binomial(rng.binomial(n_rows, 3 * place), n_rows, DELTA / 2)
    name, vote = "dissent forgotten", 3 * place
    return [
        {"name": f"{name}: as it should be", "failed": mean + not_of_one_mind / 3 < vote},
        {"name": f"{name}: with the mistake", "failed": mean < vote},
    ]


def dependent_folds(rng: Any) -> list[dict[str, Any]]:
    """Ten folds whose errors are rare together: one is far too low where others are less so.

    The fold that is lowest takes turns within an event of probability twice delta, outside of
    which all are higher: the dependence for which e is needed. Without it, the mean is bounded as
    if it were a single fold.
    """
    n_folds, size, risk = 10, 20_000, 0.2
    place = (rng.random() + np.arange(n_folds) / n_folds) % 1
    share = 2 * DELTA
    level = share * place if rng.random() < share else share + (1 - share) * rng.random(n_folds)
    errors = binom.ppf(level, size, risk)
    right_bound = folds_binomial(errors, [size] * n_folds, delta=DELTA)
    wrong_bound = folds_binomial(errors, [size] * n_folds, delta=np.e * DELTA)
    name = "e forgotten"
    return [
        {"name": f"{name}: as it should be", "failed": right_bound < risk},
        {"name": f"{name}: with the mistake", "failed": wrong_bound < risk},
    ]


def stratified(rng: Any) -> list[dict[str, Any]]:
    """One of two folds with the same shares of two classes, which are coins.

    The other fold has the same shares, so that a learner knows those of this one. Where a
    class is rarer than it should be, it errs more often there: its risk is one half.
    """
    n, more = 4000, 0.2
    ones = rng.binomial(n, 0.5)
    sign = 1 if ones < n / 2 else -1
    each = np.array([n - ones, ones]) // 2
    rates = np.array([0.5 - sign * more, 0.5 + sign * more])
    errors = rng.binomial(each, rates).sum()
    plain = float(held_out_binomial(errors, each.sum(), DELTA))
    # The price of strata: how far the shares of all rows may be from those of the classes.
    half = float(kl_inverse(errors / each.sum(), np.log(2 / DELTA) / each.sum()))
    strata = np.sqrt(np.log(4 / DELTA) / (2 * n)) + 1 / each.sum()
    return one_mistake("stratified folds", half + strata, plain)


def copies(rng: Any) -> list[dict[str, Any]]:
    """Rows that stand three times, each copy with the same coin."""
    cell = rng.permutation(np.tile(np.arange(len(CELLS)), 3))
    label = rng.integers(0, 2, len(CELLS))[cell]
    drawn = CELLS[rng.integers(0, len(CELLS), len(cell))]
    coin = rng.integers(0, 2, len(cell))
    return [
        *_coins("copies in several folds", rng, drawn, coin, N_FOLDS, is_right=True),
        *_coins("copies in several folds", rng, CELLS[cell], label, N_FOLDS, is_right=False),
    ]


def _coins(
    name: str, rng: Any, X: Any, label: Any, cv: Any, *, is_right: bool
) -> list[dict[str, Any]]:
    """Whether the bound is below one half, the risk of everybody where labels are coins."""
    model = _noise_fit(rng, X, label, cv)
    # Without that word equal rows are taken for copies.
    bounds = risk_bounds(model, X, label, delta=DELTA, independent_duplicates=is_right)
    bound = bounds["cross-validated randomised"]
    # What is wrong must not be called a guarantee.
    assert bound.is_guarantee == is_right
    which = "as it should be" if is_right else "with the mistake"
    return [{"name": f"{name}: {which}", "failed": bound.total < 0.5}]


# By which part of all draws: what takes long is drawn less often, and where a mistake is small
# more often.
RIGHT: dict[str, float] = {
    "classes": 1,
    "numbers": 1,
    "three classes": 1,
    "groups": 1,
    "nested classes": 1,
    "nested numbers": 1,
}
MISTAKES: dict[str, tuple[Callable[[Any], list[dict[str, Any]]], float]] = {
    "N forgotten": (not_counted, 2),
    "weights learned freely": (learned_weights, 1),
    "folds by cell and label": (by_label, 10),
    "copies": (copies, 10),
    "groups": (rows_for_groups, 1),
    "dissent": (forgotten_dissent, 1),
    "dependence": (dependent_folds, 1),
    "strata": (stratified, 0.05),
}


def run(
    one: Callable[[Any], list[dict[str, Any]]], draws: int, seed: int, jobs: int
) -> list[dict[str, Any]]:
    def draw_one(k: int) -> list[dict[str, Any]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return one(np.random.default_rng([seed, k]))

    counts: dict[str, int] = {}
    for rows in Parallel(n_jobs=jobs)(delayed(draw_one)(k) for k in range(draws)):
        for row in rows:
            counts[row["name"]] = counts.get(row["name"], 0) + bool(row["failed"])
    return [{"name": name, "failed": failed, "draws": draws} for name, failed in counts.items()]


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["| bound | failed | of | share |", "|---" * 4 + "|"]
    for row in rows:
        share = row["failed"] / row["draws"]
        lines.append(f"| {row['name']} | {row['failed']:,} | {row['draws']:,} | {share:.3f} |")
    return lines


def page(result: dict[str, Any]) -> str:
    lines = [
        "# Bounds of cross-validated models, where the truth is known",
        "",
        f"Written by `benchmarks/cross_validated_truth.py`. {describe(result)} {N_ROWS} rows in "
        f"{SIDE * SIDE} cells, {N_FOLDS} folds, six small trees, one of three alphas; the "
        "risk of what each bound speaks of is summed over all cells and labels. delta = "
        f"{DELTA}: no bound may fail more often, and those of a mistake should. Groups are of up "
        "to five rows of one cell. By key: one part for each row, by its key. The dependence "
        "between folds and the learner that makes use of strata are made for the purpose.",
        "",
    ]
    for task, rows in result["right"].items():
        lines += [f"## {task}", "", *table(rows), ""]
    mistakes = [row for rows in result["mistakes"].values() for row in rows]
    lines += ["## With a mistake", "", *table(mistakes)]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--resume", action="store_true", help="keep what the folder holds")
    arguments = parser.parse_args()
    result: dict[str, Any] = {**versions(), "right": {}, "mistakes": {}}
    path = arguments.out and arguments.out / "cross_validated_truth.json"
    if arguments.resume and path and path.exists():
        result |= json.loads(path.read_text())
    parts = [
        ("right", seed, name, grouped if name == "groups" else right(name), part)
        for seed, (name, part) in enumerate(RIGHT.items())
    ]
    parts += [
        ("mistakes", 100 + seed, name, one, part)
        for seed, (name, (one, part)) in enumerate(MISTAKES.items())
    ]
    for kind, seed, name, one, part in parts:
        if name not in result[kind]:
            draws = max(1, int(arguments.draws / part))
            result[kind][name] = run(one, draws, seed, arguments.jobs)
            print(name, flush=True)
            if arguments.out:
                arguments.out.mkdir(parents=True, exist_ok=True)
                text = json.dumps(result, indent=1) + "\n"
                (arguments.out / "cross_validated_truth.json").write_text(text)
                (arguments.out / "cross_validated_truth.md").write_text(page(result))
    print(page(result))


if __name__ == "__main__":
    main()
