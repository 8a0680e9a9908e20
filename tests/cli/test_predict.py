"""`kpp predict` on raw files is the pipeline in Python; nothing is misread without a word."""

import gzip
import io
import json

import numpy as np
import pandas as pd
import pytest
from cli_tables import HOSTILE

from kpp import KPPRegressor
from kpp.io import load, save

FEW = ["--forest", "extra-trees", "--trees", "10", "--jobs", "1", "-q"]
TINY = {"n_estimators": 5, "cv": 3, "alphas": [0.1, 1.0], "random_state": 0}


def read(text):
    return pd.read_csv(io.StringIO(text))


@pytest.fixture(scope="module")
def table(folder):
    return pd.read_csv(folder / "reg.csv")


def expected(folder, name, frame):
    model = load(folder / f"{name}.kpp")
    return model, frame[list(model[0].feature_names_in_)]


def test_predictions_are_those_of_the_pipeline(run, folder, table):
    model, X = expected(folder, "reg", table)
    done = run("predict", folder / "reg.kpp", folder / "reg.csv", "--id", "id")
    got = read(done.out)
    assert list(got.columns) == ["id", "prediction"]
    assert got["id"].tolist() == table["id"].tolist()
    # The shortest decimals that read back as the same number.
    assert (got["prediction"].to_numpy() == model.predict(X)).all()
    assert "that do not count: 'const', 'empty'." in done.err  # and no word of the target


def test_a_dash_is_standard_output_and_nothing_else_is_there(run, folder):
    given = ["predict", folder / "reg.kpp", folder / "reg.csv"]
    assert run(*given, "--out", "-").out == run(*given).out
    for command in ("explain", "certify"):
        given = [command, folder / "iris.kpp", "iris"]
        assert run(*given, "--out", "-").out == run(*given).out
        done = run(*given, "--out", "-", "--row", 0)
        assert done.code == 2
        assert "--out - is for tables" in done.err
    done = run("predict", folder / "reg.kpp", folder / "reg.csv", "--out", "-", "--json")
    assert done.code == 2
    assert "both write to standard output" in done.err
    done = run("fit", "iris", "--out", "-")
    assert done.code == 2
    assert "is a file, not a text" in done.err


@pytest.mark.parametrize("name", ["x.xlsx", "x", "x.csv.zip", "x.pkl", ".csv.bak"])
@pytest.mark.parametrize("command", ["predict", "explain", "certify"])
def test_an_ending_that_says_of_no_table_is_refused(run, folder, tmp_path, command, name):
    done = run(command, folder / "iris.kpp", "iris", "--out", tmp_path / name)
    assert done.code == 2
    assert "does not say what kind of table" in done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
def test_infinite_values_name_their_column(run, folder, table, tmp_path, value):
    rows = table.copy()
    rows.loc[3, "size"] = value
    rows.to_csv(tmp_path / "x.csv", index=False)
    for command in ("predict", "explain", "diagnose"):
        done = run(command, folder / "reg.kpp", tmp_path / "x.csv")
        assert done.code == 2
        assert "The column 'size' of" in done.err
        assert "holds 1 infinite or too large values, the first in row 3" in done.err


def test_a_short_row_is_an_error_with_its_line(run, folder, tmp_path):
    lines = (folder / "reg.csv").read_text().splitlines()
    lines[5] = lines[5].rpartition(",")[0].rpartition(",")[0]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    done = run("predict", folder / "reg.kpp", tmp_path / "x.csv")
    assert done.code == 2
    assert "line 6 has 8 cell(s), and the header 10" in done.err


def test_probabilities(run, folder):
    model, X = expected(folder, "iris", pd.read_csv(io.StringIO(iris_csv())))
    path = folder / "iris.csv"
    path.write_text(iris_csv())
    got = read(run("predict", folder / "iris.kpp", path, "--proba").out)
    names = [f"probability_{name}" for name in model.classes_]
    assert (got[names].to_numpy() == model.predict_proba(X)).all()
    assert got["prediction"].tolist() == model.predict(X).tolist()


def test_intervals(run, folder, table):
    model, X = expected(folder, "reg", table)
    done = run("predict", folder / "reg.kpp", folder / "reg.csv", "--interval", 0.8)
    got, found = read(done.out), model[-1].predict_interval(model[:-1].transform(X), 0.8)
    assert list(got.columns) == ["prediction", "lower", "upper"]
    assert (got["lower"].to_numpy() == found.lower).all()
    assert (got["upper"].to_numpy() == found.upper).all()
    assert "Coverage of 0.8 aimed at; not a guarantee" in done.err
    assert "FAILS   alpha fixed without these labels" in done.err
    options = ("--interval", 0.8, "--width", "constant")
    got = read(run("predict", folder / "reg.kpp", folder / "reg.csv", *options).out)
    same = model[-1].predict_interval(model[:-1].transform(X), 0.8, width="constant")
    assert (got["lower"].to_numpy() == same.lower).all()
    assert not (same.lower == found.lower).all()


@pytest.mark.parametrize(
    "given",
    [
        {"loss": "quantile", "quantile": 0.7},
        {"loss": "quantile", "quantile": [0.1, 0.85]},
        {"loss": "poisson"},
    ],
    ids=str,
)
def test_intervals_of_other_losses(run, tmp_path, given):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    y = np.floor(np.exp(X["a"] + 1))
    model = KPPRegressor("extra-trees", **TINY, **given).fit(X, y)
    save(model, tmp_path / "own.kpp")
    X.to_csv(tmp_path / "x.csv", index=False)
    several = isinstance(given.get("quantile"), list)
    names = ["prediction_0.1", "prediction_0.85"] if several else ["prediction"]
    lower = []
    for options in ((), ("--width", "adaptive"), ("--width", "constant")):
        common = (tmp_path / "own.kpp", tmp_path / "x.csv", "--interval", 0.8)
        done = run("predict", *common, *options)
        assert done.code == 0, done.err
        got = read(done.out)
        assert list(got.columns) == [*names, "lower", "upper"]
        found = model.predict_interval(X, 0.8, **dict([("width", options[1])] if options else []))
        assert (got[names].to_numpy() == found.prediction.reshape(60, -1)).all()
        assert (got["lower"].to_numpy() == found.lower).all()
        assert (got["upper"].to_numpy() == found.upper).all()
        lower.append(found.lower)
    assert (lower[0] == lower[1]).all()
    assert not (lower[0] == lower[2]).all()


def test_several_targets_have_columns_each(run, tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    model = KPPRegressor("extra-trees", **TINY).fit(X, X**2)
    save(model, tmp_path / "own.kpp")
    X.to_csv(tmp_path / "x.csv", index=False)
    got = read(run("predict", tmp_path / "own.kpp", tmp_path / "x.csv", "--interval", 0.8).out)
    names = ("prediction", "lower", "upper")
    assert list(got.columns) == [f"{name}_{k}" for name in names for k in (0, 1)]
    found = model.predict_interval(X, 0.8)
    for name in names:
        assert (got[[f"{name}_0", f"{name}_1"]].to_numpy() == getattr(found, name)).all()


def test_sets(run, folder):
    model, X = expected(folder, "iris", pd.read_csv(io.StringIO(iris_csv())))
    path = folder / "iris.csv"
    path.write_text(iris_csv())
    done = run("predict", folder / "iris.kpp", path, "--set", 0.7)
    found = model[-1].predict_set(model[:-1].transform(X), 0.7)
    names = [f"set_{name}" for name in model.classes_]
    assert (read(done.out)[names].to_numpy() == found.sets).all()
    assert (f"{found.n_empty} of 150 sets are empty" in done.err) == (found.n_empty > 0)


@pytest.mark.parametrize(
    ("name", "option", "message"),
    [
        ("reg", ("--set", 0.9), "use --interval"),
        ("cls", ("--interval", 0.9), "use --set"),
        ("reg", ("--width", "constant"), "give --interval"),
        ("reg", ("--interval", 0.9, "--width", "wide"), "'adaptive', 'constant'"),
        ("reg", ("--interval", 1.5), "--interval is a share of rows, strictly between 0 and 1"),
        ("reg", ("--interval", 90), "such as 0.9; got 90: 90% is 0.9"),
        ("cls", ("--set", 95), "--set is a share of rows, strictly between 0 and 1, such as 0.9"),
        ("reg", ("--interval", 0.9999), "needs out-of-fold errors of at least 9999 rows"),
    ],
)
def test_coverage_that_cannot_be(run, folder, name, option, message):
    done = run("predict", folder / f"{name}.kpp", folder / f"{name}.csv", *option)
    assert done.code == 2
    assert message in " ".join(done.err.split())


def plain_table(n=150):
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(n, 3)).round(3), columns=list("abc"))
    return X.assign(price=(X["a"] + random.normal(size=n)).round(3))


def fitted(run, place, table, *options):
    table.to_csv(place / "x.csv", index=False)
    given = ("--target", "price", "--out", place / "own.kpp", *FEW, "--test-size", 0, *options)
    done = run("fit", place / "x.csv", *given)
    assert done.code == 0, done.err


def asked(run, place, *options):
    done = run("predict", place / "own.kpp", place / "x.csv", "--interval", 0.9, *options)
    return done.code, " ".join(done.err.split())


CROSS = ("--regime", "cross-validated", "--folds", 3)
NESTED = (*CROSS, "--nested")


def test_a_guarantee_says_what_it_trusts(run, tmp_path):
    fitted(run, tmp_path, plain_table(), *NESTED)
    _, said = asked(run, tmp_path)
    model = load(tmp_path / "own.kpp")[-1]
    proven = model.predict_interval(plain_table()[list("abc")], 0.9).proven_coverage
    assert (
        f"Coverage of 0.9 aimed at; guaranteed for at least {proven:.4g}, on average, if new rows "
        "are drawn like those of the fit." in said
    )
    assert "FAILS" not in said


def test_nothing_is_guaranteed_where_fit_says_that_columns_were_prepared(run, tmp_path):
    table = plain_table().assign(kind=np.tile(["u", "v", "w"], 50))
    fitted(run, tmp_path, table, *NESTED)
    _, said = asked(run, tmp_path)
    assert "Coverage of 0.9 aimed at; not a guarantee. FAILS columns prepared" in said
    assert "guaranteed" not in said


def test_copies_are_draws_where_fit_or_predict_was_told_so(run, tmp_path):
    table = pd.concat([plain_table(), plain_table().iloc[:4]])
    fitted(run, tmp_path, table, *NESTED)
    _, said = asked(run, tmp_path)
    assert "not a guarantee. FAILS exchangeable rows: 8 of the 154 rows" in said
    assert "say --independent-duplicates" in said
    assert "=True" not in said
    assert "guaranteed for at least" in asked(run, tmp_path, "--independent-duplicates")[1]
    fitted(run, tmp_path, table, *NESTED, "--independent-duplicates")
    assert "guaranteed for at least" in asked(run, tmp_path)[1]
    done = run("predict", tmp_path / "own.kpp", tmp_path / "x.csv", "--independent-duplicates")
    assert done.code == 2
    assert "give --interval or --set" in " ".join(done.err.split())


def test_advice_is_in_words_of_the_command(run, tmp_path):
    fitted(run, tmp_path, plain_table())
    _, said = asked(run, tmp_path)
    assert said.count("; use --regime cross-validated --nested") == 2
    assert "alphas=" not in said
    fitted(run, tmp_path, plain_table(), "--alpha", 1.0)
    code, said = asked(run, tmp_path)
    assert code == 2
    assert "--interval needs a model with fits that have left a fold out" in said
    assert "Fit it again without --alpha, or with --regime cross-validated" in said
    assert "alpha=" not in said
    assert "alphas=" not in said
    # What it says works.
    fitted(run, tmp_path, plain_table(), "--alpha", 1.0, *CROSS)
    assert asked(run, tmp_path)[0] == 0


def iris_csv():
    from sklearn.datasets import load_iris

    return load_iris(as_frame=True).data.to_csv(index=False)


@pytest.mark.parametrize("kind", ["csv.gz", "parquet", "feather", "semicolons", "shuffled", "bom"])
def test_other_files_give_the_same(run, folder, table, tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    if kind == "csv.gz":
        path.write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    elif kind == "semicolons":
        table.to_csv(path, sep=";", decimal=",", index=False)
    elif kind == "shuffled":
        extra = table.assign(**{"new\x1b[2J": 1})
        extra[list(extra.columns[::-1])].to_csv(path, index=False)
    elif kind == "bom":
        table.to_csv(path, index=False, encoding="utf-8-sig")
    else:
        getattr(table, f"to_{kind}")(path)
    model, X = expected(folder, "reg", table)
    done = run("predict", folder / "reg.kpp", path)
    assert (read(done.out)["prediction"].to_numpy() == model.predict(X)).all()
    assert "\x1b" not in done.err
    assert "warning" not in done.err


def test_one_row_at_a_time_is_the_same_as_all(run, folder, table, tmp_path):
    """One row has other types: a gap makes a column of categories one of numbers."""
    model, X = expected(folder, "reg", table)
    together = model.predict(X)
    for k in (0, 1, 7, 11):
        table.iloc[[k]].to_csv(tmp_path / "one.csv", index=False)
        done = run("predict", folder / "reg.kpp", tmp_path / "one.csv")
        assert read(done.out)["prediction"].tolist() == [together[k]]


def test_codes_that_are_text_stay_text(run, tmp_path):
    """1 and 2 beside x are texts; a file with 1, 2 and a gap must not read them as 1.0, 2.0."""
    random = np.random.default_rng(0)
    code = random.choice(["1", "2", "x"], 90)
    frame = pd.DataFrame({"code": code, "y": (code == "1") * 5.0 + random.normal(0, 0.1, 90)})
    frame.to_csv(tmp_path / "fit.csv", index=False)
    run("fit", tmp_path / "fit.csv", "--target", "y", "-o", tmp_path / "m.kpp", *FEW)
    (tmp_path / "new.csv").write_text("code,other\n1,a\n2,b\n,c\n")
    done = run("predict", tmp_path / "m.kpp", tmp_path / "new.csv")
    prediction = read(done.out)["prediction"]
    assert prediction[0] == pytest.approx(5, abs=0.5)
    assert prediction[1] == pytest.approx(0, abs=0.5)
    assert "categories" not in done.err
    assert "'code': 1 of 3 values are missing; in the fit none was" in done.err
    assert "that do not count: 'other'." in done.err


def test_what_is_misread_is_said(run, folder, table, tmp_path):
    bad = table.astype({"size": object})
    bad.loc[[1, 3], "size"] = ["much", "little"]
    bad.loc[2, "colour"] = "[red]mauve\x1b[0m"
    bad.loc[4, "when"] = "some day"
    bad.to_csv(tmp_path / "x.csv", index=False)
    done = run("predict", folder / "reg.kpp", tmp_path / "x.csv")
    assert done.code == 0
    assert "Column 'size': 2 of 160 values are not the numbers" in done.err
    assert "the first is 'much'" in done.err
    assert "Column 'when': 1 of 160 values are not the dates" in done.err
    assert "Column 'colour': 1 of 160 values are categories that the model has not seen" in done.err
    assert r"[red]mauve\x1b[0m" in done.err
    # They count as missing, and the other rows are as before.
    model, X = expected(folder, "reg", table)
    prediction = read(done.out)["prediction"].to_numpy()
    others = [k for k in range(len(table)) if k not in (1, 2, 3, 4)]
    assert (prediction[others] == model.predict(X)[others]).all()
    assert prediction[1] == model.predict(X.assign(size=np.nan))[1]


def test_missing_columns_are_named(run, folder, table, tmp_path):
    table.rename(columns={"colour": "color"}).drop(columns="city").to_csv(
        tmp_path / "x.csv", index=False
    )
    done = run("predict", folder / "reg.kpp", tmp_path / "x.csv")
    assert done.code == 2
    assert done.out == ""
    assert "lacks 2 of the 6 columns that the model needs: 'colour', 'city'" in done.err
    assert "Did you mean 'color'?" in done.err


def test_output_files(run, folder, table, tmp_path):
    model, X = expected(folder, "reg", table)
    for name, reader in [
        ("p.csv", pd.read_csv),
        ("p.csv.gz", pd.read_csv),
        ("p.tsv", lambda path: pd.read_csv(path, sep="\t")),
        ("p.parquet", pd.read_parquet),
        ("p.feather", pd.read_feather),
        ("p.json", lambda path: pd.DataFrame(json.loads(path.read_text()))),
    ]:
        done = run("predict", folder / "reg.kpp", folder / "reg.csv", "-o", tmp_path / name)
        assert (done.code, done.out) == (0, "")
        assert (reader(tmp_path / name)["prediction"].to_numpy() == model.predict(X)).all()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["p.csv", "p.csv.gz", "p.tsv", "p.parquet", "p.feather", "p.json"]
    )
    assert (tmp_path / "p.csv").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_json(run, folder, table):
    model, X = expected(folder, "cls", pd.read_csv(folder / "cls.csv"))
    done = run("predict", folder / "cls.kpp", folder / "cls.csv", "--proba", "--json")
    assert done.data["n_rows"] == len(X)
    assert done.data["columns"]["prediction"] == model.predict(X).tolist()
    assert done.data["columns"]["probability_low"] == model.predict_proba(X)[:, 1].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reg.kpp", "reg.csv", "--proba"], "--proba is for classification"),
        (["reg.kpp", "reg.csv", "--id", "ids"], "no column 'ids' (--id). Did you mean 'id'?"),
        (["nope.kpp", "reg.csv"], "There is no file"),
        (["reg.csv", "reg.csv"], "not a file of kpp.save"),
        (["reg.kpp", "reg.csv", "-o", "reg.csv"], "is an input"),
        (["reg.kpp", "reg.csv", "-o", "reg.kpp"], "is an input"),
    ],
)
def test_wrong_arguments(run, folder, arguments, message, monkeypatch):
    monkeypatch.chdir(folder)
    done = run("predict", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.out == ""


def test_hostile_names_are_kept_in_files_and_harmless_on_screens(run, folder, monkeypatch):
    done = run("explain", folder / "reg.kpp", folder / "reg.csv", "-q")
    assert HOSTILE in done.out  # for programs, as it is
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    done = run("explain", folder / "reg.kpp", folder / "reg.csv", "-q")
    assert "\x1b" not in done.out
    assert r"[bold]<b>evil</b>\x1b[31m" in done.out
