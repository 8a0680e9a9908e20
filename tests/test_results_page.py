"""The committed results and the results page: every number is where it should be."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from paper import index
from scipy import stats
from suite import config as configs
from suite import page, tables

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
CONFIGS = ROOT / "benchmarks" / "suite" / "configs"
SOURCES = page.Sources(RESULTS / "suite", RESULTS / "ablations", RESULTS / "paper")
PAGE = ROOT / "docs" / "results.md"
METRICS = {"rmse": "regression", "error": "classification", "log_loss": "classification"}


def committed(folder):
    """Results of a run that its pages show, read from the CSV alone, and its config."""
    config = configs.read(folder / "config.toml")
    found = pd.read_csv(folder / "results.csv")
    return found[found["seed"].isin(config.shown_seeds)], config


def test_the_page_is_that_of_the_results():
    text = PAGE.read_text()
    assert page.fill(text, page.blocks(SOURCES)) == text
    blocks = {match["name"] for match in page.BLOCK.finditer(text)}
    assert blocks == set(page.blocks(SOURCES))


def test_prose_holds_no_figures():
    """Decimal numbers and percentages stand in filled blocks only."""
    prose = page.BLOCK.sub("", PAGE.read_text())
    prose = re.sub(r"`[^`]*`", "", prose)
    assert re.findall(r"\d+\.\d+|\d+ ?%", prose) == []


def test_unknown_block_is_an_error():
    with pytest.raises(ValueError, match="block 'nothing'"):
        page.fill("<!-- table: nothing -->\n<!-- end -->", {"about": []})


def test_pictures_of_the_page_are_those_of_the_results():
    shown = re.findall(r"\]\(images/([\w.]+)\)", PAGE.read_text())
    assert len(shown) >= 4
    for name in shown:
        origin = page.pictures(SOURCES)[name]
        assert (PAGE.parent / "images" / name).read_bytes() == origin.read_bytes()


@pytest.mark.parametrize("name", ["suite", "ablations"])
def test_runs_follow_their_configs(name):
    found, config = committed(RESULTS / name)
    assert config.difference(configs.read(CONFIGS / f"{name}.toml")) == []
    assert not found.duplicated(["data", "method", "seed"]).any()
    tasks = {tuple(task) for task in config.work()}
    assert set(found[["data", "method", "seed"]].itertuples(index=False, name=None)) <= tasks


@pytest.mark.parametrize("metric", METRICS)
def test_rankings_against_pandas_and_scipy(metric):
    """From the CSV, by other software than the report's."""
    found, config = committed(RESULTS / "suite")
    rankings = json.loads((RESULTS / "suite" / "rankings.json").read_text())
    own = [ranking for ranking in rankings if ranking["metric"] == metric]
    assert len(own) == 6
    own_rows = found[(found["task"] == METRICS[metric]) & (found["status"] == "ok")]
    for ranking in own:
        sets = config.data[METRICS[metric]]
        if ranking["scope"] == "unseen":
            sets = [name for name in sets if name not in config.report["seen"]]
        assert ranking["sets"] == sets
        wide = own_rows.pivot_table(index="data", columns="method", values=metric)
        # Means of the same five numbers may differ in the last bit: rounded, they tie.
        ranked = wide.loc[sets, ranking["methods"]].round(13)
        ranks = ranked.rank(axis=1).mean()
        assert ranking["mean_ranks"] == pytest.approx(ranks.to_dict())
        test = stats.friedmanchisquare(*ranked.to_numpy().T)
        assert ranking["omnibus"]["statistic"] == pytest.approx(test.statistic)
        assert ranking["omnibus"]["p_value"] == pytest.approx(test.pvalue, rel=1e-8)
        p_values = []
        for pair in ranking["pairs"]:
            both = own_rows[own_rows["method"].isin([ranking["ours"], pair["rival"]])]
            both = both[both["data"].isin(sets)]
            both = both.pivot_table(index=["data", "seed"], columns="method", values=metric)
            both = both.dropna().groupby("data").mean()
            both = np.log(both) if metric == "rmse" else both
            gap = (both[pair["rival"]] - both[ranking["ours"]]).to_numpy()
            gap = np.where(np.abs(gap) <= 1e-12, 0, gap)
            assert (pair["wins"], pair["losses"]) == ((gap > 0).sum(), (gap < 0).sum())
            assert pair["median"] == pytest.approx(np.median(gap), abs=1e-12)
            p_values.append(stats.wilcoxon(gap).pvalue if gap.any() else 1.0)
        assert [pair["p_value"] for pair in ranking["pairs"]] == pytest.approx(p_values)
        # Holm: the k-th smallest times the number that is left, never falling.
        order = np.argsort(p_values)
        held = 0.0
        for k, position in enumerate(order):
            held = max(held, min(1.0, (len(order) - k) * p_values[position]))
            assert ranking["pairs"][position]["p_holm"] == pytest.approx(held)


def test_report_can_be_made_from_what_is_committed(tmp_path):
    for name in ("config.toml", "results.jsonl", "environment.json"):
        shutil.copyfile(RESULTS / "ablations" / name, tmp_path / name)
    tables.write_report(tmp_path)
    for name in ("report.md", "effects.json", "results.csv"):
        assert (tmp_path / name).read_text() == (RESULTS / "ablations" / name).read_text()


@pytest.mark.parametrize("metric", METRICS)
def test_effects_against_pandas(metric):
    found, config = committed(RESULTS / "ablations")
    effects = json.loads((RESULTS / "ablations" / "effects.json").read_text())[metric]
    arms = [m for m, about in config.methods.items() if METRICS[metric] in about.tasks]
    assert {effect["arm"] for effect in effects} == set(arms) - {"kpp"}
    wide = found[found["status"] == "ok"].pivot_table(index="data", columns="method", values=metric)
    for effect in effects:
        theirs, own = wide[effect["arm"]], wide["kpp"]
        change = theirs - own if metric == "error" else theirs / own - 1
        assert effect["n_sets"] == len(config.data[METRICS[metric]])
        assert effect["median"] == pytest.approx(change.median(), abs=1e-12)
        better, worse = (change < -1e-11).sum(), (change > 1e-11).sum()
        assert (effect["better"], effect["worse"]) == (better, worse)


def test_index_of_the_papers_tables(tmp_path):
    for path in (RESULTS / "paper").glob("paper_*.json"):
        shutil.copyfile(path, tmp_path / path.name)
    written = index.write(tmp_path).read_text()
    assert written == (RESULTS / "paper" / "README.md").read_text()
    # What is KPP's own on diabetes and wine agrees to the printed digits.
    assert index.own_figures(tmp_path, "diabetes") == (19, 19)
    assert index.own_figures(tmp_path, "wine_quality_red") == (31, 31)
