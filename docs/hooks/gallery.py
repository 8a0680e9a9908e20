"""Three live reports, made when the site is built: `gallery/*.html`, and the table of one of them.

They are what the command writes today, on data that comes with scikit-learn or is made here.
Imports are inside, so that collecting this file for doctests does not need the extra ``docs``.
"""

from __future__ import annotations

import io
import tempfile
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

# Small models: the site is to be built in a minute.
SMALL = ("--trees", "30", "--max-rows", "12", "--quiet")
REPORTS: dict[str, tuple[str, ...]] = {
    "classification": ("breast_cancer", "--forest", "extra-trees"),
    "regression": ("diabetes", "--forest", "extra-trees", "--y-range", "0", "400"),
    "strings_and_gaps": ("houses.csv", "--target", "price", "--id", "id", "--forest", "boosted"),
}


def houses(n_rows: int = 400, seed: int = 0) -> Any:
    """A made table: numbers, categories, dates, texts, and gaps in all of them."""
    import numpy as np
    import pandas as pd

    random = np.random.default_rng(seed)
    size = random.lognormal(4.4, 0.4, n_rows).round(1)
    kind = random.choice(["flat", "house", "studio"], n_rows, p=[0.5, 0.35, 0.15])
    district = random.choice(["north", "east", "south", "west"], n_rows)
    days = random.integers(0, 1500, n_rows)
    words = np.array(["garden", "lift", "balcony", "quiet", "bright", "renovated", "cellar"])
    text = [" ".join(random.choice(words, 3, replace=False)) for _ in range(n_rows)]
    price = (
        2.5 * size
        + 90.0 * (kind == "house")
        - 30.0 * (district == "east")
        + 0.03 * days
        + 25.0 * np.char.count(np.array(text), "garden")
        + random.normal(0, 20, n_rows)
    )
    table = pd.DataFrame(
        {
            "id": [f"H{k:04d}" for k in range(n_rows)],
            "size": size,
            "kind": kind,
            "district": district,
            "sold": (pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D")).strftime("%Y-%m-%d"),
            "text": text,
            "price": price.round(1),
        }
    )
    for name in ("size", "kind", "sold", "text"):
        table.loc[random.random(n_rows) < 0.08, name] = None
    return table


@cache
def pages() -> dict[str, str]:
    """The reports, and the table, by the name of their file."""
    from kpp.cli import main

    made = {}
    with tempfile.TemporaryDirectory() as folder:
        houses().to_csv(Path(folder) / "houses.csv", index=False)
        made["houses.csv"] = (Path(folder) / "houses.csv").read_text(encoding="utf-8")
        for name, (data, *options) in REPORTS.items():
            source = str(Path(folder) / data) if data.endswith(".csv") else data
            out = Path(folder) / f"{name}.html"
            with redirect_stdout(io.StringIO()):
                code = main(["report", source, *options, *SMALL, "--out", str(out)])
            if code != 0:
                raise RuntimeError(f"The report {name} of the gallery could not be made.")
            made[f"{name}.html"] = out.read_text(encoding="utf-8")
    return made


def on_files(files: Any, config: Any) -> Any:
    """Add the reports to the site."""
    from mkdocs.structure.files import File

    for name, content in pages().items():
        files.append(File.generated(config, f"gallery/{name}", content=content))
    return files
