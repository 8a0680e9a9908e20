"""`kpp fit`: a model from a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kpp.bounds.assumptions import fit_rows_assumption
from kpp.cli.console import Terminal
from kpp.cli.files import save_model
from kpp.models.asking import ask
from kpp.models.penalties import alpha_was_given
from kpp.models.pipelines import has_learned
from kpp.models.regimes import regime_of
from kpp.reports.out_of_fold import out_of_fold_note
from kpp.tables.fit_rows import KEY as ROWS
from kpp.tables.fitting import FitOptions, Fitted, fit_table
from kpp.tables.numbers import short
from kpp.tables.reading import TableFile
from kpp.tables.scores import Scores, not_above_constant, words_of
from kpp.tables.writing import check_output

# What the file says beside the model; the rest is in the model.
KEPT = (
    *("target", "task", "task_reason", "rows_without_target", "id", "groups", "time"),
    *("weights", "categorical", "numerical", "independent_duplicates", "scores"),
)
NAMES = {
    "out_of_fold": "out of fold",
    "test": "test rows",
    "baseline": "a constant, test rows",
}


def run_fit(table: str, options: FitOptions, out: Path | None, terminal: Terminal) -> int:
    """Fit a table, save the model and say how good it is."""
    source = TableFile(table)
    path = Path(f"{source.stem}.kpp") if out is None else out
    check_output(path, source, options.test)
    if path.exists():
        terminal.note(f"{path} is there already, and will be replaced.")
    fitted = fit_table(source, options, terminal)
    summary = fit_summary(fitted, source.name)
    kept = {name: summary[name] for name in KEPT} | {ROWS: fitted.fit_rows.to_dict()}
    save_model(fitted.pipeline, path, kept)
    summary["model"] = str(path)
    if terminal.json:
        terminal.result(summary)
    else:
        show_fit(fitted, summary, terminal)
    return 0


def fit_summary(fitted: Fitted, data: str) -> dict[str, Any]:
    """What was fitted and how good it is, as plain data."""
    model = fitted.model
    classes = getattr(model, "classes_", None)
    return {
        "data": data,
        "target": fitted.target.name,
        "id": fitted.options.id,
        "groups": fitted.options.groups,
        "groups_fitted": _n_different(fitted.groups),
        "groups_tested": _n_different(fitted.test_groups),
        "time": fitted.options.time,
        "weights": fitted.options.weights,
        "categorical": list(fitted.options.categorical),
        "numerical": list(fitted.options.numerical),
        "independent_duplicates": fitted.options.independent_duplicates,
        "task": fitted.target.task,
        "task_reason": fitted.target.reason,
        "classes": None if classes is None else classes.tolist(),
        "rows_without_target": fitted.target.n_missing,
        "rows_fitted": len(fitted.train[1]),
        "columns": fitted.columns.used,
        "prepared_columns": int(model.n_features_in_),
        "columns_left_out": {"constant": fitted.columns.constant, "empty": fitted.columns.empty},
        "columns_like_ids": fitted.columns.id_like,
        "forest": fitted.options.forest,
        # All that there are: a blend, or boosters of folds, have others than were asked for.
        "trees": sum(block.forest.n_trees for block in model.additive_.blocks),
        "regime": model.regime_,
        "alpha": model.alpha_,  # of a blend one a block
        "blend_weights": _plain(model.blend_weights_),
        "alpha_chosen": not alpha_was_given(model),
        "loss": "log" if classes is not None else fitted.options.loss,
        "quantile": fitted.options.quantiles() if fitted.options.loss == "quantile" else None,
        "seconds": fitted.seconds,
        "scores": {k: None if s is None else s.to_dict() for k, s in fitted.scores.items()},
    }


def _plain(weights: dict[str, Any] | None) -> dict[str, Any] | None:
    """Weights of candidates as JSON has them; several targets have a list each."""
    if weights is None:
        return None
    return {name: np.asarray(weight).tolist() for name, weight in weights.items()}


def _n_different(groups: Any) -> int | None:
    return None if groups is None else len(set(groups.tolist()))


def show_fit(fitted: Fitted, summary: dict[str, Any], terminal: Terminal) -> None:
    """Print the summary for people."""
    classes, regime = summary["classes"], regime_of(fitted.model)
    task = summary["task"] + (f", {len(classes)} classes" if classes is not None else "")
    chosen = "chosen out of fold" if summary["alpha_chosen"] else "as given"
    if summary["alpha_chosen"] and fitted.options.nested:
        chosen = "means over the parts, each of which has chosen its own"
    groups = []
    if summary["groups"] is not None:
        tested = summary["groups_tested"] or 0
        text = f"'{summary['groups']}', {summary['groups_fitted']} to fit, {tested} to test"
        groups.append(("groups", text))
    terminal.facts(
        [
            ("data", f"{summary['data']}, target '{summary['target']}', {task}"),
            (
                "fitted on",
                f"{summary['rows_fitted']} rows, {len(summary['columns'])} columns "
                f"({summary['prepared_columns']} when prepared)",
            ),
            *groups,
            ("forest", f"{summary['forest']}, {summary['trees']} trees"),
            ("regime", f"{regime.name}: {regime.in_short} ({regime.number})"),
            *_loss(summary),
            ("alpha", f"{_alphas(summary['alpha'])}, {chosen}"),
            *_weights(summary["blend_weights"]),
            ("time", f"{summary['seconds']:.1f} s"),
            ("model", summary["model"]),
        ]
    )
    terminal.line()
    show_scores(fitted.scores, terminal)
    terminal.line()
    for text in _claims(fitted):
        terminal.line(text)


def _loss(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """The loss, where it is not that of the task."""
    if summary["loss"] in ("log", "squared"):
        return []
    if summary["quantile"] is None:
        return [("loss", summary["loss"])]
    quantiles = ", ".join(f"{q:g}" for q in np.atleast_1d(summary["quantile"]))
    return [("loss", f"{summary['loss']} {quantiles}")]


def _alphas(alpha: float | dict[str, float]) -> str:
    if not isinstance(alpha, dict):
        return short(alpha)
    return ", ".join(f"{short(own)} ({name})" for name, own in alpha.items())


def _weights(weights: dict[str, Any] | None) -> list[tuple[str, str]]:
    """A line of what each candidate of a blend counts."""
    if weights is None:
        return []
    listed = (f"{np.round(weight, 2)} {name}" for name, weight in weights.items())
    return [("blend", "; ".join(listed))]


def show_scores(scores: dict[str, Scores | None], terminal: Terminal) -> None:
    """Print a table of scores, one line per figure: their names are too long for heads."""
    known = [(NAMES[name], one) for name, one in scores.items() if one is not None]
    if not known:
        return
    figures = list(known[0][1].figures)
    terminal.table(
        ["scores", *(name for name, _ in known)],
        [
            ["rows", *(str(one.n_rows) for _, one in known)],
            *([words_of(key), *(short(one.figures[key]) for _, one in known)] for key in figures),
        ],
        right=range(1, 1 + len(known)),
    )


def _claims(fitted: Fitted) -> list[str]:
    """What may be said of the figures, and what not."""
    found = list(_no_better(fitted))
    if fitted.scores["test"] is None:
        found.append("No test rows were kept: there is no score on rows that the fit has not seen.")
    elif fitted.splits_by_time:
        found += [*fitted.about_test[:1], "Rows that are later still may differ more."]
    else:
        of = "rows" if fitted.test_groups is None else "rows of new groups"
        found.append(
            f"The test rows had no part in the fit: their score estimates that of new {of} like "
            "them, and of no others."
        )
    if fitted.scores["out_of_fold"] is None:
        found.append("No out-of-fold score: alpha was given, so nothing was held out.")
    else:
        found.append(out_of_fold_note(fitted.model))
        if fitted.options.time is not None:
            found.append(
                f"Folds are blocks of '{fitted.options.time}': a row is predicted without its "
                "neighbours in time, but with later rows too."
            )
    if fitted.options.time is not None:
        said = "Bounds on the training rows are diagnostics here, not guarantees: rows in the order"
        return [*found, f"{said} of time are not known to be independent draws."]
    independent = fitted.options.independent_duplicates
    return [*found, bounds_claim(fitted.pipeline, independent_duplicates=independent)]


def _no_better(fitted: Fitted) -> Iterator[str]:
    test, constant = fitted.scores["test"], fitted.scores["baseline"]
    if test is not None and test.no_auc is not None:
        yield f"The {words_of('auc')} on the test rows is {test.no_auc}."
    for name in not_above_constant(test, constant):
        assert test is not None
        assert constant is not None
        low, high = test.intervals[name]
        yield (
            f"Warning: by its {words_of(name)} the model is not known to be better than a "
            f"constant: the 95% interval on the test rows, {short(low)} to {short(high)}, does not "
            f"keep clear of the constant's {short(constant.figures[name])}."
        )


def bounds_claim(pipeline: Any, *, independent_duplicates: bool = False) -> str:
    """What bounds on the training rows of a fit are worth: its regime alone does not decide it."""
    question = ask(pipeline)
    is_classifier, regime = question.is_classifier, question.regime
    needs_limits = "" if is_classifier else ", and limits of the target known before"
    if has_learned(question.preparation):
        return (
            "Bounds on the training rows are diagnostics here, not guarantees: texts, dates or "
            "categories were prepared on all of them, in every regime. A bound on test rows can be "
            f"a guarantee (kpp report{'' if is_classifier else ' with --y-range'})."
        )
    if regime.grows_on_fit_rows and not regime.leaves_folds_out:
        return (
            "Bounds on the training rows are diagnostics here, not guarantees: those need "
            f"--regime cross-validated or --regime honest{needs_limits}."
        )
    if question.model.fit_record_.is_grouped:
        of_folds = regime.averages_folds
        where = "on new groups" if of_folds else "on the fit fold and on new groups"
        return (
            "Bounds that count rows are diagnostics here, not guarantees: rows of a group are not "
            f"independent draws. kpp.risk_bounds(..., groups=...) gives one {where} that counts "
            "groups, and speaks of a random row of a random group"
            f"{'' if is_classifier else ', with limits of the target known before'}."
        )
    if fit_rows_assumption(question.model).holds is False:
        return (
            "Bounds on the training rows are diagnostics here, not guarantees: the folds were made "
            "by class, so that their rows are not independent draws. Use --regime honest, or in "
            "Python cv=KFold(5, shuffle=True)."
        )
    whose = "the predictor of each fold" if regime.averages_folds else "the model"
    if regime.leaves_folds_out:
        whose = "the vote and the averages of the folds' predictors"
        if not is_classifier:
            whose = "the mean of the folds' clipped predictions"
    condition = (
        "the rows are independent draws"
        if is_classifier
        else "the rows are independent draws and y_range holds limits of the target that were "
        "known before any data"
    )
    if copies := question.model.duplicate_rows_:
        advice = (
            "you say that by chance: say independent_duplicates=True there, too"
            if independent_duplicates
            else "they void it unless by chance; then say independent_duplicates=True, or "
            "--independent-duplicates to kpp report"
        )
        condition += f" ({copies:,} of them equal another in every column: {advice})"
    return (
        f"kpp.risk_bounds on the training rows gives bounds on {whose} that hold with probability "
        f"0.95 over the rows, if {condition}; each lists its conditions."
    )
