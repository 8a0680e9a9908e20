"""How the models of 0.1 in this folder were saved.

They stay as they are: newer versions of this package must read them, so they are not to be
written again. Saved by the last state of 0.1.0.dev0, with scikit-learn 1.9.1 and skrub 0.11.

Run as ``python write_release01.py FOLDER``. Both are default blends, small ones, with a
preparation: of the command (a table with texts and gaps) and of scikit-learn (numbers). Beside
each file goes what it predicted for some rows.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kpp import KPPClassifier, save
from kpp.cli import main as command


def table(n_rows):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "size": rng.normal(50.0, 10.0, n_rows).round(1),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "age": rng.integers(0, 90, n_rows).astype(float),
        }
    )
    frame.loc[rng.random(n_rows) < 0.1, "age"] = np.nan
    shift = frame["colour"].map({"red": 5.0, "green": 0.0, "blue": -5.0})
    step = np.where(frame["size"] > 50.0, 8.0, 0.0) + shift * (frame["age"] > 40)
    frame["price"] = (frame["size"] / 5 + step + rng.normal(size=n_rows)).round(2)
    return frame


def main(folder):
    frame = table(60)
    path = folder / "release01.csv"
    frame.to_csv(path, index=False)
    out = folder / "release01_regressor.kpp"
    options = ["--trees", "3", "--seed", "0", "--out", str(out)]
    assert command(["fit", str(path), "--target", "price", *options]) == 0
    path.unlink()
    from kpp import load

    rows = frame.drop(columns="price").head(8)
    rows.loc[0, "colour"] = "never seen"
    expected = load(out).predict(rows).tolist()
    plain = {"rows": json.loads(rows.to_json(orient="records")), "prediction": expected}
    (folder / "release01_regressor.json").write_text(json.dumps(plain))

    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3)).round(3)
    y = np.where(X[:, 0] * X[:, 1] + rng.normal(size=60) / 4 > 0, "yes", "no")
    model = make_pipeline(StandardScaler(), KPPClassifier(n_estimators=3, random_state=0))
    model.fit(X, y)
    save(model, folder / "release01_classifier.kpp")
    probability = model.predict_proba(X[:8]).tolist()
    plain = {"rows": X[:8].tolist(), "probability": probability}
    (folder / "release01_classifier.json").write_text(json.dumps(plain))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
