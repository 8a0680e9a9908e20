"""Main effects in a blend, none, ladders or linear terms, on the development sets.

Run ``python benchmarks/main_effects.py --data-dir FOLDER --out benchmarks/results``. The folder
holds ``<name>.csv.gz`` and ``suite.json``, which names the development sets; the suite itself plays
no part. What is done is kept line by line in ``main_effects.jsonl``: a run that is broken off goes
on there.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accuracy_blend import data_sets, losses_of, split_of
from sklearn.utils import check_random_state

from kpp import KPPClassifier, KPPRegressor
from kpp.models import grower

EFFECTS: dict[str, str | None] = {"none": None, "ladders": "ladders", "linear": "linear"}
MOST_ROWS = 3000


class SameTrees:
    """Within, all three blends grow the very same trees and boosters.

    Every forest of a group draws a seed, ladders too, which do not use it: the groups after the
    first would have other trees beside ladders, and the noise of that would be compared.
    """

    def __init__(self, effects: str) -> None:
        self.has_ladders, self.before = effects == "ladders", check_random_state

    def __enter__(self) -> None:
        if self.has_ladders:
            vars(grower)["check_random_state"] = lambda seed: _Seeds(self.before(seed))

    def __exit__(self, *error: object) -> None:
        vars(grower)["check_random_state"] = self.before


class _Seeds:
    """Seeds for trees and booster as they would be drawn without the third forest, ladders."""

    def __init__(self, random: Any) -> None:
        self.random, self.n = random, 0

    def randint(self, most: int) -> int:
        """Draw two of three."""
        self.n += 1
        return 0 if self.n % 3 == 0 else int(self.random.randint(most))


def run(
    name: str, classification: bool, effects: str, seed: int, n_estimators: int, data_dir: str
) -> dict[str, Any]:
    """Fit one blend on four fifths of the rows, and score it on the others."""
    X, X_test, y, y_test = split_of(name, data_dir, classification, seed, MOST_ROWS)
    kind = KPPClassifier if classification else KPPRegressor
    model = kind(
        "blend", main_effects=EFFECTS[effects], n_estimators=n_estimators, random_state=seed
    )
    start = time.process_time()
    with warnings.catch_warnings(), SameTrees(effects):
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return {
        "data": name,
        "effects": effects,
        "seed": seed,
        "n_rows": len(y),
        "n_columns": X.shape[1],
        "cpu_seconds": time.process_time() - start,
        "weight": (model.blend_weights_ or {}).get(effects, 0.0),
    } | losses_of(model, X_test, y_test, y, classification)


def to_markdown(rows: list[dict[str, Any]], sets: list[tuple[str, str, bool]]) -> str:
    """Wins and ratios of the loss to that without main effects; then every set."""
    table = pd.DataFrame(rows)
    done = table.groupby(["data", "seed"]).filter(lambda part: len(part) == len(EFFECTS))
    means = done.groupby(["data", "effects"]).mean(numeric_only=True).unstack()
    counts = sorted(set(done.groupby("data").seed.nunique()))
    splits = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    lines = [
        "# Main effects in a blend",
        "",
        "Written by `benchmarks/main_effects.py`: the development sets, at most "
        f"{MOST_ROWS:,} rows, 20% held out, {splits} split(s) a set, "
        '`forest="blend"`. The trees and boosters are the same in all three, so that only main '
        "effects differ. Ratios of the loss are to `main_effects=None`; times are medians of the "
        "ratio of processor seconds.",
        "",
        "| sets | main effects | done | wins | ties | median ratio | geometric mean | time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups = [
        (f"{group}, {loss}", [n for g, n, c in sets if g == group and c == classification])
        for group in ("small", "large")
        for classification, loss in ((False, "RMSE"), (True, "log loss"))
    ]
    everything = [
        (loss, [n for _, n, c in sets if c == (loss == "log loss")])
        for loss in ("RMSE", "log loss")
    ]
    pairs = [("ladders", "none"), ("linear", "none"), ("linear", "ladders")]
    for title, names in [*groups, *(("all, " + loss, names) for loss, names in everything)]:
        own = means[means.index.isin(names)]
        if not len(own):
            continue
        for effects, against in pairs:
            ratio = own["loss"][effects] / own["loss"][against]
            times = (own["cpu_seconds"][effects] / own["cpu_seconds"][against]).median()
            shown = effects if against == "none" else f"{effects} against {against}"
            lines.append(
                f"| {title} | {shown} | {len(ratio)} | {int((ratio < 1).sum())} "
                f"| {int((ratio == 1).sum())} | {ratio.median():.4f} "
                f"| {np.exp(np.log(ratio).mean()):.4f} | {times:.2f} |"
            )
    lines += ["", "Set by set, and the weight of the main effects' layer in the blend:", ""]
    lines += ["| sets | data | loss without | ladders | linear | weight of ladders | of linear |"]
    lines += ["|---" * 7 + "|"]
    for group, name, _ in sets:
        if name in means.index:
            own = means.loc[name]
            none = own["loss"]["none"]
            cells = [f"{own['loss'][e] / none:.4f}" for e in ("ladders", "linear")]
            cells += [f"{own['weight'][e]:.2f}" for e in ("ladders", "linear")]
            lines.append(f"| {group} | {name} | {none:.4g} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--sets", nargs="*", help="only these data sets")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--n-estimators", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin nothing after these")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path, end = arguments.out / "main_effects.jsonl", time.monotonic() + 60 * arguments.minutes
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["data"], row["effects"], row["seed"]) for row in rows}
    sets = data_sets(arguments.data_dir)
    for seed in range(arguments.seeds):
        for _, name, classification in sets:
            for effects in EFFECTS:
                key = (name, effects, seed)
                if key in done or (arguments.sets and name not in arguments.sets):
                    continue
                if time.monotonic() > end:
                    continue
                row = run(
                    name,
                    classification,
                    effects,
                    seed,
                    arguments.n_estimators,
                    str(arguments.data_dir),
                )
                rows.append(row)
                with path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(*key, f"{row['loss']:.4g}", f"{row['cpu_seconds']:.1f} s", flush=True)
    (arguments.out / "main_effects.md").write_text(to_markdown(rows, sets))


if __name__ == "__main__":
    main()
