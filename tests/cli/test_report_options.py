"""`kpp report --compare` and `--segments`."""

import json

import pytest

from kpp.cli.report import segments_of
from kpp.tables.errors import UserError

FEW = ["--trees", "8", "--alpha", "0.1", "--max-rows", "1", "--forest", "extra-trees"]


def test_other_models_and_named_segments(run, folder, tmp_path, monkeypatch):
    """The usual rivals are asked for; here they are the simple ones, which take no time."""
    from kpp.diagnostics.rivals import simple_rivals

    def usual(*, classification, categorical, n_jobs=None, random_state=0):
        return simple_rivals(classification=classification, categorical=categorical)

    monkeypatch.setattr("kpp.diagnostics.comparison.usual_rivals", usual)
    out = ["-o", tmp_path / "r.html", "--json", tmp_path / "r.json"]
    done = run("report", folder / "cls.csv", "--target", "label", "--compare", *FEW, *out)
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "r.json").read_text())["sections"]
    assert not found["comparison"]["is_simple"]
    assert found["comparison"]["models"][0]["name"] == "KPPClassifier"
    assert found["comparison"]["models"][1]["seconds"] is not None
    assert found["segments"]["n_segments"] > 4
    names = [one["name"].split()[0] for one in found["segments"]["segments"]]
    columns = {name for name in names if name.isidentifier()}
    one, two = sorted(columns)[:2]
    named = ["--segments", one, "--segments", f"{one},{two}"]
    done = run("report", folder / "cls.csv", "--target", "label", *named, *FEW, *out)
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "r.json").read_text())["sections"]
    assert found["comparison"]["is_simple"]
    assert all(own["name"].startswith(one) for own in found["segments"]["segments"])
    assert any(f" and {two}" in own["name"] for own in found["segments"]["segments"])


def test_what_cannot_be_had_is_said(run, folder, tmp_path):
    common = ["report", folder / "cls.csv", "-o", tmp_path / "r.html"]
    done = run(*common, "--model", folder / "cls.kpp", "--compare")
    assert done.code == 2
    assert "leave --model out" in done.err
    done = run(*common, "--model", folder / "cls.kpp", "--segments", "nowhere")
    assert done.code == 2
    assert "there is no column 'nowhere'" in done.err


def test_a_column_may_have_a_comma_or_be_called_like_a_word():
    assert segments_of(["a,b"], ["a,b", "a"]) == ["a,b"]
    assert segments_of(["pairs"], ["pairs"]) == ["pairs"]
    with pytest.raises(UserError, match="no column 'b'"):
        segments_of(["a, b"], ["a"])


def test_a_misspelt_segment_costs_no_fit(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("kpp.cli.report.fit_table", None)  # whoever calls it fails otherwise
    done = run("report", folder / "reg.csv", "--target", "price", "--segments", "twon")
    assert done.code == 2
    assert "there is no column 'twon'" in done.err
