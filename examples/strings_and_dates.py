"""A table with strings, dates and gaps: prepared in a Pipeline, explained by its own columns.

Needs the extra ``cli``, for skrub. Run ``python examples/strings_and_dates.py``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from skrub import TableVectorizer

from kpp import KPPRegressor, explain, explain_rules, load, save

random = np.random.default_rng(0)
n = 600
table = pd.DataFrame(
    {
        "size": random.normal(80, 25, n).round(1),
        "kind": random.choice(["flat", "house", "studio"], n),
        "sold": pd.Timestamp("2019-01-01") + pd.to_timedelta(random.integers(0, 2000, n), "D"),
        "street": random.choice([f"{name} street" for name in ("Oak", "Elm", "Lime", "Ash")], n),
    }
)
years = (table["sold"] - pd.Timestamp("2019-01-01")).dt.days / 365
price = 3 * table["size"] + 60 * (table["kind"] == "house") + 12 * years + random.normal(0, 15, n)
table.loc[::9, "size"] = np.nan
table.loc[::13, "kind"] = None

# Categories become columns, dates their parts; gaps stay, since trees take them as they are.
pipeline = make_pipeline(TableVectorizer(), KPPRegressor("extra-trees", random_state=0))
pipeline.fit(table[:450], price[:450])
new, actual = table[450:], price[450:]
error = np.sqrt(np.mean((pipeline.predict(new) - actual) ** 2))
print(f"Error on {len(new)} new rows: {error:.1f}; of a constant {actual.std():.1f}.")
print(f"{table.shape[1]} columns, {pipeline[-1].n_features_in_} when prepared.")

# Contributions come back to the columns of the table.
one = new.iloc[[1]]
found = explain(pipeline, one, centered=True)
print(f"\nPredicted {pipeline.predict(one)[0]:.0f}, on average {found.baseline:.0f}:")
for name, value in zip(found.feature_names, found.values[0], strict=True):
    print(f"{value:+8.1f}  {name} = {one[name].iloc[0]}")
print(explain_rules(pipeline, one, top=3))

# One file without pickle holds the preparation, too.
with tempfile.TemporaryDirectory() as folder:
    save(pipeline, Path(folder) / "prices.kpp")
    again = load(Path(folder) / "prices.kpp")
print(f"\nThe same from its file: {(again.predict(new) == pipeline.predict(new)).all()}")
