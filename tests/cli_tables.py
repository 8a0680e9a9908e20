"""A table with everything that real ones have."""

import numpy as np
import pandas as pd

HOSTILE = "[bold]<b>evil</b>\x1b[31m"


def mixed_table(n_rows=160, seed=0):
    """Numbers with gaps, categories, a long text, dates, bools, an id, two useless columns."""
    random = np.random.default_rng(seed)
    size = random.normal(50, 10, n_rows).round(2)
    colour = random.choice(["red", "green", "blue"], n_rows)
    days = pd.to_timedelta(random.integers(0, 900, n_rows), "D")
    frame = pd.DataFrame(
        {
            "id": [f"row {k:04d}" for k in range(n_rows)],
            "size": size,
            "colour": colour,
            HOSTILE: random.choice(["</script>", "[red]x[/red]"], n_rows),
            "when": pd.Timestamp("2020-01-01") + days,
            "city": [f"town of number {k}" for k in random.integers(0, 70, n_rows)],
            "const": 1,
            "empty": np.nan,
            "flag": random.random(n_rows) < 0.5,
        }
    )
    truth = size + 8.0 * (colour == "red") + random.normal(0, 2, n_rows)
    frame["price"] = truth.round(3)
    frame["label"] = np.where(truth > 52, "high", "low")
    frame.loc[::7, "size"] = np.nan
    frame.loc[::11, "colour"] = None
    return frame


def visits(n_patients=60, seed=0):
    """A few rows of each patient, who is ill or not."""
    random = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), random.integers(1, 6, n_patients))
    ill = random.random(n_patients) < 0.5
    frame = pd.DataFrame(random.normal(size=(len(patient), 3)), columns=list("abc"))
    frame["a"] += 2.0 * ill[patient]
    frame["patient"] = 1_000_000_000 + patient
    frame["ill"] = np.where(ill[patient], "yes", "no")
    return frame
