"""`report` and `report_data`: everything about a model on test rows, on one page or as data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kpp._checks import RefusedError
from kpp._progress import Progress
from kpp.reports.escaping import shown
from kpp.reports.page import render, room_for_model, write
from kpp.reports.sections import (
    alpha,
    appendix,
    bounds,
    comparison,
    data,
    findings,
    fitted,
    intervals,
    picture,
    quality,
    robustness,
    rows,
    summary,
    variables,
    whatif,
)
from kpp.reports.sections import (
    segments as segment_section,
)
from kpp.reports.subject import Subject
from kpp.tables.plain import plain_data

FORMAT = 1
MAX_ROWS = 60
# In the order of the page.
TITLES = {
    "summary": "At a glance",
    "fitted": "What was fitted",
    "quality": "How good it is",
    "comparison": "Beside other models",
    "segments": "Where it is worse",
    "alpha": "How the penalty was chosen",
    "intervals": "How sure a prediction is",
    "variables": "What matters",
    "rows": "Rows to explore",
    "whatif": "What if a value were another",
    "picture": "The rows in two dimensions",
    "robustness": "How robust it is",
    "bounds": "What is guaranteed",
    "data": "The data",
    "findings": "Diagnostics",
    "appendix": "Appendix",
}


def report(
    model: Any,
    X: Any,
    y: Any,
    path: str | Path,
    *,
    title: str | None = None,
    sample_weight: Any = None,
    train: tuple[Any, ...] | None = None,
    groups: Any = None,
    independent_duplicates: bool = False,
    y_range: tuple[float, float] | None = None,
    target: str | None = None,
    source: str | Sequence[str] = (),
    unseen: bool = True,
    n_seen: int | None = None,
    compare: Any = None,
    segments: Any = "columns",
    max_rows: int = MAX_ROWS,
    times: bool = True,
    random_state: int = 0,
    verbose: int = 0,
    recipe: Mapping[str, Any] | None = None,
) -> Path:
    """Write a report on a fitted model as one self-contained HTML file.

    The file needs no network, no server and no other file; it is a few hundred kilobytes, at
    most 3 MB, whatever the size of the data. It begins with a summary in plain words, and shows
    what was fitted and in which regime, how good it is, alone and beside other models, and where it
    is worse, how alpha was chosen, what intervals or sets cover, what matters, single rows with
    their explanations and certificates, the embedding in two dimensions, robustness curves, risk
    bounds and diagnostics, each with a sentence on what it means.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier, or Pipeline of a preparation and one of them
        Fitted. Attributions are summed to the columns that the preparation was given.
    X : array-like or data frame of shape (n_rows, n_columns)
        Test rows, which fit has not used. The index of a data frame names them on the page.
    y : array-like of shape (n_rows,) or (n_rows, n_targets)
        Their targets.
    path : str or Path
        Where to write. The file appears at once, when it is complete.
    title : str, optional
        Title of the page.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the test rows, in the scores and in the mean contributions; the page says which
        figures count every row once.
    train : tuple of X and y, or of X, y and groups, optional
        What was given to fit. Adds out-of-fold figures in full, the bounds on the rows of the
        fit, and the targets of neighbours.
    groups : array-like of shape (n_rows,), optional
        Which of the test rows belong together. Bounds that count rows are then no guarantees where
        a group has several; one that counts groups is added, of a random row of a random group.
    independent_duplicates : bool, default=False
        Whether rows that are equal in every column are independent draws that happen to agree;
        otherwise they are taken for copies, and void the guarantees (see `kpp.risk_bounds`).
    y_range : tuple of float, optional
        For a regression: limits of the target that were known before any data, for the bounds.
    target : str, optional
        What y is called.
    source : str or sequence of str, optional
        Where the rows come from, in sentences: the file, how the test rows were drawn, which rows
        were left out. Shown as they are.
    unseen : bool, default=True
        Whether the caller knows that fit has not used the test rows. Where not, the page says so
        beside scores and bounds.
    n_seen : int, optional
        How many of the rows fit has used, where the caller knows it; by default the report looks
        whether they are like those of the fit. Such rows are not called test rows.
    compare : bool or Comparison, optional
        True fits the usual rivals of `kpp.compare` on `train` and scores them on the same rows; the
        result of `kpp.compare` is shown as it is. By default a constant, a linear model and a small
        tree are fitted, where there is `train` and one target; False leaves the section out.
    segments : "columns", "pairs", sequence, mapping or None, default="columns"
        Segments of the rows to be scored: `by` of `kpp.segments`; None leaves the section out.
    max_rows : int, default=60
        Most rows to explore: a third of large error, a third of small certified radius, the
        others at random. Each takes a tenth of a second or more in a large model.
    times : bool, default=True
        Whether to say when the report was made, and how long each section took. Without, the
        same inputs give the same bytes.
    random_state : int, default=0
        Seed of the rows that are drawn where there are too many to show.
    verbose : int, default=0
        1 shows how far it is, 2 in more detail.
    recipe : mapping, optional
        How the report is made again, to be shown: "command", a line for a shell, and "inputs", each
        with "name", "what" and "sha256". `kpp report` gives it; without, the page shows the call
        in Python.

    Returns
    -------
    path : Path
        The file.

    Notes
    -----
    A section that a model has no answer to says so on the page, and the others are made; any other
    error is raised. Needs the extra ``report``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.reports import report
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-2, random_state=0)
    >>> model = model.fit(X[::2], y[::2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = report(model, X[1::2], y[1::2], Path(folder) / "iris.html", max_rows=3)
    ...     path.name, path.stat().st_size < 3e6
    ('iris.html', True)
    """
    data = report_data(
        model,
        X,
        y,
        title=title,
        sample_weight=sample_weight,
        train=train,
        groups=groups,
        independent_duplicates=independent_duplicates,
        y_range=y_range,
        target=target,
        source=source,
        unseen=unseen,
        n_seen=n_seen,
        compare=compare,
        segments=segments,
        max_rows=max_rows,
        times=times,
        random_state=random_state,
        verbose=verbose,
        recipe=recipe,
    )
    return write(render(data), Path(path))


def report_data(
    model: Any,
    X: Any,
    y: Any,
    *,
    title: str | None = None,
    sample_weight: Any = None,
    train: tuple[Any, ...] | None = None,
    groups: Any = None,
    independent_duplicates: bool = False,
    y_range: tuple[float, float] | None = None,
    target: str | None = None,
    source: str | Sequence[str] = (),
    unseen: bool = True,
    n_seen: int | None = None,
    compare: Any = None,
    segments: Any = "columns",
    max_rows: int = MAX_ROWS,
    times: bool = True,
    random_state: int = 0,
    verbose: int = 0,
    recipe: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the content of `report` as plain data, ready for JSON.

    Parameters
    ----------
    model, X, y, title, sample_weight, train, groups, independent_duplicates, y_range, target, \
source, unseen, n_seen, compare, segments, max_rows, times, random_state, verbose, recipe
        As in `report`.

    Returns
    -------
    data : dict
        "format", "title", and "sections": a dict with one entry per section of the page. Each
        has "title" and "made"; where "made" is False, "why" says what could not be made. Numbers
        that are not finite are None, and names are as shown on the page.

    Examples
    --------
    >>> import json
    >>> from sklearn.datasets import load_iris
    >>> from kpp import KPPClassifier
    >>> from kpp.reports import report_data
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-2, random_state=0)
    >>> model = model.fit(X[::2], y[::2])
    >>> data = report_data(model, X[1::2], y[1::2], max_rows=3)
    >>> list(data["sections"])[:3]
    ['summary', 'fitted', 'quality']
    >>> len(json.loads(json.dumps(data))["sections"]["rows"]["rows"])
    3
    """
    progress = Progress(verbose)
    subject = Subject.read(
        model,
        X,
        y,
        sample_weight=sample_weight,
        train=train,
        groups=groups,
        independent_duplicates=independent_duplicates,
        max_rows=max_rows,
        random_state=random_state,
        y_range=y_range,
        target_name=target,
        source=source,
        unseen=unseen,
        n_seen=n_seen,
    )
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "fitted": lambda: fitted.make(subject),
        "quality": lambda: quality.make(subject),
        "comparison": lambda: comparison.make(subject, model, compare, times=times),
        "segments": lambda: segment_section.make(subject, segments),
        "alpha": lambda: alpha.make(subject),
        "intervals": lambda: intervals.make(subject),
        "variables": lambda: variables.make(subject),
        "rows": lambda: rows.make(
            subject, lambda name, done, total: progress(f"rows, {name}", done, total)
        ),
        "whatif": lambda: whatif.make(subject, sections["rows"], room_for_model(sections)),
        "picture": lambda: picture.make(subject),
        "robustness": lambda: robustness.make(subject),
        "bounds": lambda: bounds.make(subject),
        "data": lambda: data.make(subject),
        "findings": lambda: findings.make(subject),
        "appendix": lambda: appendix.make(subject, recipe),
    }
    if not comparison.wanted(subject, compare):
        del makers["comparison"]
    if segments is None:
        del makers["segments"]
    sections: dict[str, Any] = {}
    for name, make in makers.items():
        phase = f"report, {TITLES[name].lower()}"
        progress(phase, 0, 1)
        start = time.perf_counter()
        try:
            made = {"made": True, **make()}
        except RefusedError as error:  # what a model has no answer to costs no other section
            made = {"made": False, "why": shown(error, 400)}
        seconds = {"seconds": round(time.perf_counter() - start, 3)} if times else {}
        sections[name] = plain_data({"title": TITLES[name], **made, **seconds})
        progress(phase, 1, 1)
    cautions = quality.cautions(sections["quality"], sections.get("comparison"))
    # What it says comes from the others, and stands before them.
    start = time.perf_counter()
    glance = {"title": TITLES["summary"], "made": True, **summary.make(sections, cautions)}
    if times:
        glance["seconds"] = round(time.perf_counter() - start, 3)
    sections = {"summary": glance, **sections}
    kind = type(subject.model).__name__
    now = {"created": datetime.now(UTC).isoformat(timespec="seconds")} if times else {}
    return {
        "format": FORMAT,
        "title": shown(f"Report on a {kind}" if title is None else title, 120),
        **now,
        "cautions": cautions,
        "tiles": glance["tiles"],
        "sections": sections,
    }
