"""`check_data`: what a table holds, and what in it may spoil a model or its scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._shown import Shown
from kpp.diagnostics.data_findings import DATA_CHECKS, data_findings
from kpp.diagnostics.findings import Finding
from kpp.diagnostics.leaks import (
    N_FOLDS,
    bins_of,
    copies_target,
    leaking,
    target_scores,
    unexplained,
)
from kpp.diagnostics.table_columns import (
    ColumnProfile,
    as_dates,
    is_id_like,
    is_in_order,
    profile_of,
)

# More rows say no more about the skill of a column.
SKILL_ROWS = 10_000
MOST_LABELS = 20
MOST_SHOWN = 40
# Fewer rows than this tell no skill.
FEWEST_ROWS = 30
# Share of missing values from which a column is named, as in KPP102.
MOSTLY = 0.5


@dataclass(frozen=True, eq=False)
class DataChecks(Shown):
    """What a table holds, and findings; from `check_data`.

    Parameters
    ----------
    n_rows, n_columns : int
        Of the table; rows without a target are not counted.
    columns : tuple of ColumnProfile
        Every column, those that a finding names first, then by skill.
    target : ColumnProfile or None
        The target.
    n_duplicates : int
        Rows that equal an earlier one in every column and in the target.
    n_contradictions : int
        Rows that equal an earlier one in every column, but not in the target.
    n_skill_rows : int
        Rows, drawn at random, that the skills of single columns are of; 0 without a target.
    together : float
        Share that all other columns together leave unexplained, where a column was suspected.
    findings : tuple of Finding
        What stands out.
    """

    n_rows: int
    n_columns: int
    columns: tuple[ColumnProfile, ...]
    target: ColumnProfile | None
    n_duplicates: int
    n_contradictions: int
    n_skill_rows: int
    together: float
    findings: tuple[Finding, ...]

    @property
    def codes(self) -> list[str]:
        """The codes of the findings."""
        return [finding.code for finding in self.findings]

    def named_by(self, code: str) -> list[str]:
        """The columns that a finding names.

        Parameters
        ----------
        code : str
            Of the finding.
        """
        return [column.name for column in self.columns if code in column.codes]

    def to_frame(self) -> Any:
        """Return one line per column.

        Returns
        -------
        frame : pandas DataFrame
            Indexed by column, with kind, missing (a share), distinct, low, high, most frequent
            value, skill and codes.
        """
        pd = optional("pandas", "DataChecks.to_frame")
        lines = [
            {
                "column": one.name,
                "kind": one.kind,
                "missing": one.n_missing / max(self.n_rows, 1),
                "distinct": one.n_distinct,
                "low": one.low,
                "high": one.high,
                "most_frequent": one.top[0][0] if one.top else None,
                "skill": one.skill,
                "codes": " ".join(one.codes),
            }
            for one in self.columns
        ]
        return pd.DataFrame(lines).set_index("column")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings, lists and dicts.

        Returns
        -------
        summary : dict
        """
        own = asdict(self)
        own["findings"] = [asdict(f) | {"anchor": f.anchor} for f in self.findings]
        return own

    def __str__(self) -> str:
        gaps = sum(one.n_missing for one in self.columns)
        lines = [
            f"{self.n_rows:,} rows, {self.n_columns} columns, {self.n_duplicates:,} rows twice, "
            f"{gaps / max(1, self.n_rows * self.n_columns):.1%} of the values missing",
            *(f"{f.code} {f.severity}: {f.title}. {f.meaning} {f.action}" for f in self.findings),
        ]
        if not self.findings:
            lines.append("No findings.")
        head = f"{'column':24} {'kind':10} {'missing':>8} {'distinct':>9} {'skill':>6}"
        lines += ["", head]
        for one in self.columns[:MOST_SHOWN]:
            skill = "" if math.isnan(one.skill) else f"{one.skill:.2f}"
            lines.append(
                f"{one.name[:24]:24} {one.kind:10} {one.n_missing / max(1, self.n_rows):>8.1%} "
                f"{one.n_distinct:>9,} {skill:>6}"
            )
        if len(self.columns) > MOST_SHOWN:
            lines.append(f"and {len(self.columns) - MOST_SHOWN} more columns")
        return "\n".join(lines)


def check_data(
    X: Any,
    y: Any = None,
    *,
    classification: bool | None = None,
    silence: Sequence[str] = (),
    random_state: int = 0,
) -> DataChecks:
    """Look at a table before, or beside, a model: gaps, copies, identifiers, leaks, order.

    Parameters
    ----------
    X : data frame or array-like of shape (n_rows, n_columns)
        The rows as they are, in the order of the table, before any preparation.
    y : array-like of shape (n_rows,), optional
        The target. Without it nothing is said of leaks and balance.
    classification : bool, optional
        Whether the target holds labels; by default texts, truth values and at most 20 different
        whole numbers do.
    silence : sequence of str
        Codes of findings to leave out.
    random_state : int
        Seed of the folds, and of the 10,000 rows that the skills are of where there are more.

    Returns
    -------
    checks : DataChecks
        ``print`` it; ``findings``, ``columns``, ``to_frame()``. Needs pandas.

    Notes
    -----
    A column is suspected of a leak where it alone leaves at most 1% of the target's variance
    unexplained, out of fold; or at most 10%, and at most a tenth of what all columns without
    suspicion leave together. The codes are explained in docs/diagnostics.md.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kpp import check_data
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> check_data(X, y).codes
    []
    >>> found = check_data(X.assign(outcome=2 * y + 1), y)
    >>> found.codes, found.named_by("KPP105")
    (['KPP105'], ['outcome'])
    """
    known = {check.code for check in DATA_CHECKS}
    for code in silence:
        if code not in known:
            raise ValueError(f"silence holds {code!r}; known are {', '.join(sorted(known))}.")
    frame, target = _read(X, y)
    profiles = {name: profile_of(name, frame[name]) for name in frame.columns}
    figures, named = _of_columns(frame, profiles)
    n_duplicates, n_contradictions, figures["excess_duplicates"] = _duplicates(frame, target)
    skills, about = _Skills(), None
    if target is not None:
        if classification is None:
            classification = _are_labels(target)
        about = profile_of(str(target.name or "target"), target)
        figures |= _balance(target, classification)
        skills = _of_target(frame, target, profiles, classification, random_state)
        named |= {"target_copies": skills.copies, "leaking_columns": skills.leaks}
    # Of these the number of columns is the figure.
    figures |= {name: float(len(own)) for name, own in named.items() if name not in figures}
    findings = data_findings(figures, named, silence)
    codes: dict[str, list[str]] = {}
    for finding in findings:
        for name in named.get(finding.observable, []):
            codes.setdefault(name, []).append(finding.code)
    columns = [
        replace(
            profile,
            skill=1 - skills.left.get(name, float("nan")),
            codes=tuple(codes.get(name, ())),
        )
        for name, profile in profiles.items()
    ]
    columns.sort(key=lambda one: (not one.codes, 1.0 if math.isnan(one.skill) else -one.skill))
    return DataChecks(
        n_rows=len(frame),
        n_columns=len(profiles),
        columns=tuple(columns),
        target=about,
        n_duplicates=n_duplicates,
        n_contradictions=n_contradictions,
        n_skill_rows=skills.n_rows,
        together=skills.together,
        findings=tuple(findings),
    )


@dataclass(frozen=True, eq=False)
class _Skills:
    """What single columns say of the target."""

    left: dict[str, float] = field(default_factory=dict)
    copies: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    together: float = float("nan")
    n_rows: int = 0


def _of_columns(
    frame: Any, profiles: dict[str, ColumnProfile]
) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Figures of the columns without the target, and the columns that each is about."""
    constant = [name for name, own in profiles.items() if _is_constant(own)]
    varied = [name for name in profiles if name not in set(constant)]
    missing = {name: profiles[name].n_missing / len(frame) for name in varied}
    times = {name: as_dates(frame[name]) for name in varied}
    dates = {name: own for name, own in times.items() if own is not None}
    ids = [
        name
        for name in varied
        if name not in dates and is_id_like(name, frame[name], profiles[name].n_distinct)
    ]
    named = {
        "constant_columns": constant,
        "largest_missing_share": sorted(
            (name for name in varied if missing[name] > MOSTLY), key=lambda name: -missing[name]
        ),
        "identifier_columns": ids,
        "ordering_dates": [name for name, own in dates.items() if is_in_order(own)],
    }
    return {"largest_missing_share": max(missing.values(), default=0.0)}, named


def _is_constant(profile: ColumnProfile) -> bool:
    return profile.n_distinct + (profile.n_missing > 0) <= 1


def _of_target(
    frame: Any,
    target: Any,
    profiles: dict[str, ColumnProfile],
    classification: bool,
    random_state: int,
) -> _Skills:
    """How much of the target each column explains on its own, and which explain too much."""
    values = target.to_numpy()
    varied = [name for name, own in profiles.items() if not _is_constant(own)]
    copies = [n for n in varied if copies_target(frame[n], values, classification=classification)]
    if len(frame) < FEWEST_ROWS or target.nunique() < 2:
        return _Skills(copies=copies)
    random = np.random.default_rng(random_state)
    rows = np.sort(random.permutation(len(frame))[:SKILL_ROWS])
    part = frame.iloc[rows]
    scores = target_scores(values[rows], classification=classification)
    fold = random.permutation(np.arange(len(rows)) % N_FOLDS)
    left = {name: unexplained(bins_of(part[name]), scores, fold) for name in varied}
    rest = {name: share for name, share in left.items() if name not in copies}
    leaks, together = leaking(part, rest, scores, random)
    return _Skills(left, copies, leaks, together, len(rows))


def _read(X: Any, y: Any) -> tuple[Any, Any]:
    """The rows that have a target, as a data frame, and the target as a series."""
    pd = optional("pandas", "check_data")
    if hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if not hasattr(X, "iloc"):
        array = np.asarray(X)
        if array.ndim != 2:
            raise ValueError(f"X must be a table with rows and columns; got shape {array.shape}.")
        X = pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])])
    frame = X.reset_index(drop=True)
    frame.columns = [str(name) for name in frame.columns]
    if frame.columns.duplicated().any():
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"Names of columns must differ; {twice!r} is there twice.")
    if not len(frame) or not frame.shape[1]:
        raise ValueError(f"X has no rows or no columns: its shape is {frame.shape}.")
    if y is None:
        return frame, None
    target = y.reset_index(drop=True) if hasattr(y, "iloc") else pd.Series(np.asarray(y).tolist())
    if target.ndim != 1 or len(target) != len(frame):
        raise ValueError(
            f"y must have one value for each of the {len(frame)} rows; got shape {np.shape(y)}."
        )
    has = target.notna().to_numpy()
    return frame[has].reset_index(drop=True), target[has].reset_index(drop=True)


def _are_labels(target: Any) -> bool:
    kind = str(getattr(target.dtype, "kind", "O"))
    if kind == "f":
        whole = bool((target == target.round()).all())
        return whole and int(target.nunique()) <= MOST_LABELS
    return kind not in "iu" or int(target.nunique()) <= MOST_LABELS


def _balance(target: Any, classification: bool) -> dict[str, float]:
    counts = target.value_counts()
    figures = {"largest_target_share": float(counts.iloc[0] / len(target))}
    if classification:
        figures["rows_of_rarest_class"] = float(counts.iloc[-1])
    return figures


def _duplicates(frame: Any, target: Any) -> tuple[int, int, float]:
    """Rows twice; contradictions; and the share of copies, 0 where chance may explain them."""
    pd = optional("pandas", "check_data")
    # Two hashes of 64 bits are equal by chance in one of 10^9 tables of 100,000 rows.
    prints = pd.util.hash_pandas_object(_hashable(frame), index=False)
    n_same = int(prints.duplicated().sum())
    n_copies = n_same
    if target is not None:
        own = pd.util.hash_pandas_object(_hashable(target.to_frame()), index=False)
        n_copies = int(pd.DataFrame({"row": prints, "own": own}).duplicated().sum())
    if n_copies == 0:
        return 0, n_same, 0.0
    n_rows = len(frame)
    chances = [_chance_of_equal(frame[name]) for name in frame.columns]
    pairs = n_rows * (n_rows - 1) / 2 * math.prod(chances)
    sizes = prints.value_counts()
    found = float((sizes * (sizes - 1) / 2).sum())
    # Ten times what columns that know nothing of each other give: they mostly do know something.
    excess = n_copies / n_rows if found > 10 * pairs else 0.0
    return n_copies, n_same - n_copies, excess


def _hashable(frame: Any) -> Any:
    """Columns of mixed objects as texts: hashing wants one type."""
    mixed = [name for name in frame.columns if frame[name].dtype == object]
    return frame.astype(dict.fromkeys(mixed, str)) if mixed else frame


def _chance_of_equal(column: Any) -> float:
    """Chance that two rows drawn at random have the same value."""
    counts = column.value_counts(dropna=False).to_numpy()
    n_rows = counts.sum()
    return float((counts * (counts - 1.0)).sum() / max(1, n_rows * (n_rows - 1.0)))
