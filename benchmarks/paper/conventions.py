"""Conventions that the paper does not state, tried one by one: how many figures does each give?

``python -m paper conventions --label NAME --out results/paper`` measures with the scikit-learn that
is imported and keeps the figures as ``conventions/NAME.json``; seeds that are there are not
measured again. The page is written from all of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from suite.markdown import grid, plain

from paper import dashboard, radii
from paper.comparing import Row, agrees, agrees_rounded_twice, finer, like, of_seeds
from paper.models import Context
from paper.published import (
    BENCHMARK,
    BOUNDS,
    DASHBOARD,
    DASHBOARD_COLUMNS,
    FIVE,
    RADII,
    RADII_COLUMNS,
)

# Label: what the environment is. The last is the one that gives the paper's figures.
ENVIRONMENTS = {
    "installed": "scikit-learn 1.9.1 as published for x86-64",
    "older": "scikit-learn 1.7.2 as published for x86-64",
    "fused_gcc": "scikit-learn 1.7.2, multiply-adds fused as g++ does",
    "fused": "scikit-learn 1.7.2, multiply-adds fused as clang does",
}
BEST = "fused"
# Not made of scikit-learn's trees; and a count that is five of five everywhere.
ELSEWHERE = ("XGBoost", "LightGBM", "CatBoost", "linear", "trivial")
TITLES = {"kpp_paper": "KPP (paper)", "leaf": "KPP leaf-only"}


class Figure(NamedTuple):
    """A row and the page where it stands."""

    page: str
    row: Row


class Other(NamedTuple):
    """Another convention for one quantity of one page."""

    page: str
    column: str
    name: str


def hits(row: Row) -> bool:
    """Whether it is the printed figure, rounding twice allowed."""
    return agrees(row) or agrees_rounded_twice(row)


def measured(folder: Path, label: str) -> dict[str, list[dict[str, Any]]]:
    """What was measured in an environment: set, then seeds."""
    path = folder / "conventions" / f"{label}.json"
    found: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())["sets"]
    return found


def installed(folder: Path) -> list[Figure]:
    """The same figures as the pages have them."""
    kept = []
    for name in ("five", "dashboard", "bounds", "radii"):
        for known in json.loads((folder / f"paper_{name}.json").read_text())["rows"]:
            row = Row(*(known[field] for field in Row._fields))
            if not row.quantity.startswith(ELSEWHERE):
                kept.append(Figure(name, row))
    return kept


def figures(found: dict[str, list[dict[str, Any]]]) -> list[Figure]:
    """All figures of the measured sets, by the paper's conventions."""
    rows = []
    for name, seeds in found.items():
        for method, printed in BENCHMARK[name].items():
            if method in seeds[0]["losses"]:
                values = [seed["losses"][method] for seed in seeds]
                title = TITLES.get(method, plain(method))
                rows += [Figure("five", row) for row in of_seeds(name, title, printed, values, 1)]
        if "observed" in seeds[0]:
            for page, column, printed in columns(name):
                values = [_value(page, column, seed) for seed in seeds]
                title = _title(page, column)
                rows += [Figure(page, row) for row in of_seeds(name, title, printed, values, 0)]
    return rows


def columns(name: str) -> list[tuple[str, str, tuple[str, str]]]:
    """Page, column and printed figures of dashboard, bounds and radii."""
    found = [
        ("dashboard", column, printed)
        for column, printed in zip(DASHBOARD_COLUMNS, DASHBOARD[name], strict=True)
        if printed is not None
    ]
    trace, uniform, _ = BOUNDS[name]
    found += [("bounds", "trace", trace), ("bounds", "uniform", uniform)]
    return found + [
        ("radii", column, printed)
        for column, printed in zip(RADII_COLUMNS, RADII[name], strict=True)
    ]


def _title(page: str, column: str) -> str:
    if page == "bounds":
        return column.capitalize()
    return (dashboard.NAMES if page == "dashboard" else radii.NAMES)[column]


def _value(page: str, column: str, seed: dict[str, Any]) -> float:
    part = {"dashboard": "observed", "bounds": "bound", "radii": "radius"}[page]
    return float(seed[part][column])


def others(found: dict[str, list[dict[str, Any]]]) -> list[tuple[Other, list[Row]]]:
    """Every other convention, with the figures that it gives."""
    kept: dict[Other, list[Row]] = {}

    def add(
        other: Other, name: str, printed: tuple[str, str] | None, values: Any, ddof: int
    ) -> None:
        title = TITLES.get(other.column, other.column)
        kept.setdefault(other, []).extend(of_seeds(name, title, printed, values, ddof))

    pages = {"delta_k": "dashboard", "u_half": "radii", "at_tenth": "radii"}
    for name, seeds in found.items():
        if "observed" not in seeds[0]:
            continue
        known = {column: printed for _, column, printed in columns(name)}
        bound = dict(zip(("trace", "uniform"), BOUNDS[name][:2], strict=True))
        for key in seeds[0]["others"]:
            if any(key not in seed["others"] for seed in seeds):
                continue
            column, _, convention = key.partition(": ")
            page, ddof = pages.get(column, "five"), 0 if column in pages else 1
            printed = known[column] if column in pages else BENCHMARK[name][column]
            values = [seed["others"][key] for seed in seeds]
            add(Other(page, column, convention), name, printed, values, ddof)
        terms = [seed["bound"] for seed in seeds]
        changed = {
            ("trace", "twice, as its caption has it"): [2 * t["trace"] for t in terms],
            ("uniform", "with the empirical risk"): [t["uniform"] + t["risk"] for t in terms],
            ("uniform", "with the constant of the proof"): [
                t["complexity"] + t["confidence"] for t in terms
            ],
        }
        for (column, convention), values in changed.items():
            add(Other("bounds", column, convention), name, bound[column], values, 0)
        for page, column, printed in columns(name):
            values = [_value(page, column, seed) for seed in seeds]
            swapped = Other(page, "all", "standard deviation with the other divisor")
            kept.setdefault(swapped, []).extend(of_seeds(name, column, printed, values, 1)[1:])
        for method, printed in BENCHMARK[name].items():
            if method in seeds[0]["losses"]:
                values = [seed["losses"][method] for seed in seeds]
                swapped = Other("five", "all", "standard deviation with the other divisor")
                kept.setdefault(swapped, []).extend(of_seeds(name, method, printed, values, 0)[1:])
    return list(kept.items())


def of_the_paper(other: Other, rows: list[Row], all_figures: list[Figure]) -> list[Row]:
    """The same figures by the paper's conventions, to count against."""
    sets = {row.data for row in rows}
    if other.column == "all":
        own = [f.row for f in all_figures if f.page == other.page]
        return [row for row in own if row.quantity.endswith(", std") and row.data in sets]
    title = TITLES.get(other.column) or _title(other.page, other.column)
    wanted = {title, f"{title}, std"}
    return [
        f.row
        for f in all_figures
        if f.page == other.page and f.row.quantity in wanted and f.row.data in sets
    ]


def run(context: Context, label: str, what: str = "all") -> None:
    """Measure in the present environment what is not there; see `measuring.measure`."""
    from paper.measuring import environment, measure

    path = Path(context.out or ".") / "conventions" / f"{label}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text()) if path.exists() else {"sets": {}}
    kept["environment"] = environment()
    for name, data in context.tables():
        seeds = kept["sets"].setdefault(name, [])
        for seed in range(len(seeds), context.seeds):
            seeds.append(measure(data, seed, what))
            path.write_text(json.dumps(kept, indent=1) + "\n")


def run_stopping(context: Context) -> None:
    """Measure the logistic fits of breast cancer at several tolerances."""
    from paper.stopping import STOPS, stopped

    path = Path(context.out or ".") / "conventions" / "stopping.json"
    for name, data in Context(context.data_dir, ("breast_cancer",)).tables():
        seeds = [stopped(data, seed) for seed in range(context.seeds)]
        known = {"stops": [stop._asdict() for stop in STOPS], name: seeds}
        path.write_text(json.dumps(known, indent=1) + "\n")


def stopping_lines(folder: Path) -> list[str]:
    """Figures of breast cancer by the tolerance of the logistic fit."""
    path = folder / "conventions" / "stopping.json"
    if not path.exists():
        return []
    known = json.loads(path.read_text())
    name = "breast_cancer"
    printed = {column: text for _, column, text in columns(name)}
    # Both tables have a column "trace"; here it is that of the bounds.
    printed["trace"] = BOUNDS[name][0]
    keys = ("norm", "trace", "uniform", "u_max", "u_half")
    cells = [["published", *(" ± ".join(printed[key]) for key in keys), ""]]
    for k, stop in enumerate(known["stops"]):
        seeds = [seed[k] for seed in known[name]]
        row = [f"{stop['tol']:.0e}, {'dense' if stop['dense'] else 'sparse'}"]
        count = 0
        for key in keys:
            rows = of_seeds(name, key, printed[key], [seed[key] for seed in seeds], 0)
            row.append(" ± ".join(like(finer(r.published), r.reproduced) for r in rows))
            count += sum(map(hits, rows))
        cells.append([*row, f"{count} of {2 * len(keys)}"])
    return [
        "## How far the logistic fit was taken",
        "",
        "Breast cancer at the dashboard's lambda, scikit-learn's L-BFGS, in the last of these "
        "environments. At a tolerance of 1e-10 the figures depend on the order of the sums, dense "
        "or sparse, by as much as they differ from the published ones; at 1e-8 they are far off, "
        "at 1e-12 they are those of the optimum, as on our pages.",
        "",
        *grid(["tolerance", "norm of w", "Trace", "Uniform", "u_max", "u_half", "agree"], cells),
    ]


def page(folder: Path) -> str:
    """The page, from all environments that were measured."""
    lines = [
        "# Conventions, tried one by one",
        "",
        "`python -m paper conventions`. Figures that are the printed ones to their digits "
        "(rounding twice allowed), of those that were measured.",
        "",
        "## How scikit-learn was compiled",
        "",
        "The paper's conventions in every row. XGBoost, LightGBM, CatBoost and the linear model "
        "do not depend on it and are not counted.",
        "",
    ]
    cells: list[list[str]] = []
    for label, about in ENVIRONMENTS.items():
        if label == "installed":
            own = installed(folder)
        elif (folder / "conventions" / f"{label}.json").exists():
            own = figures(measured(folder, label))
        else:
            continue
        shown = [about]
        rivals = [f for f in own if f.page == "five" and not f.row.quantity.startswith("KPP")]
        groups = [rivals, [f for f in own if f not in rivals and f.page == "five"]]
        groups += [[f for f in own if f.page == p] for p in ("dashboard", "bounds", "radii")]
        shown += [
            f"{sum(hits(f.row) for f in group)} of {len(group)}" if group else "–"
            for group in groups
        ]
        cells.append(shown)
    header = ["environment", "forests and boosting of scikit-learn", "KPP and leaf-only"]
    lines += grid([*header, "dashboard", "bounds", "radii"], cells)
    found = measured(folder, BEST)
    all_figures = figures(found)
    cells = []
    for other, rows in others(found):
        own_rows = of_the_paper(other, rows, all_figures)
        counts = [f"{sum(map(hits, group))} of {len(group)}" for group in (own_rows, rows) if group]
        quantity = TITLES.get(other.column, other.column)
        quantity = quantity if other.column in (*TITLES, "all") else _title(*other[:2])
        sets = len({row.data for row in rows})
        cells.append([other.page, quantity, other.name, str(sets), *counts])
    cells.sort(key=lambda cell: cell[:2])
    lines += [
        "## Other conventions",
        "",
        f"In the last of these environments ({', '.join(plain(n) for n in FIVE if n in found)}).",
        "",
        *grid(
            ["page", "quantity", "convention", "sets", "as on the pages", "by this convention"],
            cells,
        ),
    ]
    lines += stopping_lines(folder)
    return "\n".join(lines).rstrip() + "\n"


def write(folder: Path) -> None:
    """Write the page."""
    (folder / "paper_conventions.md").write_text(page(folder))
