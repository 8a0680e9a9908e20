"""The page as a file: complete by itself, small, whole, and without a word of markup from data."""

import base64
import hashlib
import json
import os
import re
import stat
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from reports.subjects import HOSTILE, KINDS, MAX_ROWS, data_of, made

from kpp import KPPClassifier
from kpp.reports import page, report, report_data
from kpp.reports.page import render, write
from kpp.reports.svg import Chart, Scale, round_steps, tick_texts

VOID = {"meta", "rect", "path", "circle", "line", "br", "input"}


class Reader(HTMLParser):
    """Elements, attributes and texts of a page; refuses tags that do not match."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self.open = [], {}, []
        self.feed(html)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, text):
        where = self.open[-1] if self.open else ""
        self.texts.setdefault(where, []).append(text)


@pytest.fixture(scope="module")
def pages():
    return {}


def read(pages, kind):
    if kind not in pages:
        html = render(data_of(kind))
        pages[kind] = (html, Reader(html))
    return pages[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_pages_are_well_formed_and_load_nothing(pages, kind):
    html, reader = read(pages, kind)
    tags = [tag for tag, _ in reader.tags]
    assert not {"link", "img", "iframe", "object", "embed", "base", "form", "a:href"} & set(tags)
    assert tags.count("script") == 2
    assert tags.count("style") == 1
    for tag, attributes in reader.tags:
        assert not {"src", "srcset", "action", "style", "background"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "#").startswith("#")
    assert "url(" not in html
    assert "@import" not in html
    ids = [attributes["id"] for _, attributes in reader.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    inside = {a["href"][1:] for _, a in reader.tags if "href" in a}
    assert inside <= set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_allows_this_style_and_this_script_alone(pages, kind):
    html, reader = read(pages, kind)
    policy = next(
        a["content"]
        for tag, a in reader.tags
        if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    for name, tag in (("style-src", "style"), ("script-src", "script")):
        text = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert len(text) == 1
        digest = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert parts[name] == f"'sha256-{digest}'"
    # The policy stands before everything that it is to stop.
    assert html.index("Content-Security-Policy") < html.index("<style>")


@pytest.mark.parametrize("kind", KINDS)
def test_embedded_data_is_the_content(pages, kind):
    html, _ = read(pages, kind)
    text = re.search(r'id="embedded">(.*?)</script>', html, re.DOTALL)[1]
    embedded = json.loads(text)
    assert len(embedded["rows"]["rows"]) == MAX_ROWS
    assert embedded["variables"]["made"] == data_of(kind)["sections"]["variables"]["made"]


def test_hostile_names_add_no_element_and_no_attribute(pages):
    html, reader = read(pages, "hostile")
    _, plain = read(pages, "binary")
    known = {tag for tag, _ in plain.tags}
    names = {name for _, attributes in plain.tags for name in attributes}
    assert {tag for tag, _ in reader.tags} <= known
    assert {name for _, attributes in reader.tags for name in attributes} <= names
    assert "<img" not in html
    assert "<script>alert" not in html
    # The names are there all the same, as text.
    words = " ".join(text for texts in reader.texts.values() for text in texts)
    assert HOSTILE[0] in words
    assert "{{7*7}}" in words
    assert not set("\u202e\u2066\u2028\x00\x07") & set(html)


def test_a_hostile_title_stays_text():
    model, X, y, _ = made("multiclass")
    data = report_data(model, X, y, title="</title><script>alert(1)</script>", max_rows=1)
    assert "<script>alert" not in render(data)


def test_labels_that_are_numbers():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.repeat([-1.0, 2.0], 30)
    X[:, 0] += y
    model = KPPClassifier("extra-trees", n_estimators=5, alpha=1e-2, random_state=0).fit(
        X[::2], y[::2]
    )
    data = report_data(model, X[1::2], y[1::2], max_rows=2)
    assert data["sections"]["quality"]["confusion"]["classes"] == ["-1.0", "2.0"]
    Reader(render(data))


def test_accessible_names_and_structure(pages):
    for kind in ("binary", "regression"):
        html, reader = read(pages, kind)
        assert '<html lang="en">' in html
        assert ("a", "#main") in [(tag, a.get("href")) for tag, a in reader.tags]
        for tag, attributes in reader.tags:
            if tag == "svg":
                assert attributes.get("aria-hidden") == "true" or attributes["aria-label"]
            if tag == "th":
                assert attributes["scope"] in ("row", "col")
            if attributes.get("role") == "region":
                assert attributes["aria-label"]
        levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))


# The file.


def test_the_same_inputs_give_the_same_bytes(tmp_path):
    model, X, y, train = made("binary")
    files = [
        report(model, X, y, tmp_path / name, train=train, max_rows=3, times=False)
        for name in ("a.html", "b.html")
    ]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    write("old", path)

    def fails(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="full"):
        write("new", path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_written_files_have_the_usual_permissions(tmp_path):
    path = write("x", tmp_path / "report.html")
    other = tmp_path / "other"
    other.write_text("x")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_places_that_cannot_be_written_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        write("x", tmp_path / "missing" / "report.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write("x", tmp_path)


def test_the_page_stays_small_however_many_rows_are_asked_for(monkeypatch):
    data = data_of("binary")
    most = len(render(data).encode()) - 10_000
    monkeypatch.setattr(page, "MOST_BYTES", most)
    html = render(data)
    assert len(html.encode()) <= most
    text = re.search(r'id="embedded">(.*?)</script>', html, re.DOTALL)[1]
    assert 1 <= len(json.loads(text)["rows"]["rows"]) < MAX_ROWS


@pytest.mark.parametrize(
    ("n_rows", "n_columns"),
    [(600, 200), pytest.param(50_000, 200, marks=pytest.mark.slow)],
)
def test_the_size_does_not_grow_with_the_data(tmp_path, n_rows, n_columns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * n_rows, n_columns))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    model = KPPClassifier("extra-trees", n_estimators=10, alpha=1e-4, n_jobs=2, random_state=0)
    model.fit(X[:n_rows], y[:n_rows])
    n_shown = 100 if n_rows > 1000 else 10
    path = report(model, X[n_rows:], y[n_rows:], tmp_path / "report.html", max_rows=n_shown)
    assert path.stat().st_size < 3e6
    # The rows, and the model of the page, which is a small one here.
    assert path.stat().st_size < 600_000 + 12_000 * n_shown


# Charts.


def test_ticks_are_round_and_inside():
    for low, high in [(0, 1), (-3.2, 17), (1e-9, 2e-9), (0, 1e12), (-0.5, -0.1)]:
        ticks = round_steps(low, high)
        assert 2 <= len(ticks) <= 5
        assert all(low <= tick <= high for tick in ticks)
    assert round_steps(2.0, 2.0) == [2.0]
    assert Scale(1e-3, 1e2, 0, 100, log=True).ticks(6) == pytest.approx(
        [1e-3, 1e-2, 0.1, 1, 10, 100]
    )


@pytest.mark.parametrize("high", [1.0, 2e5, 2.2e6, -9e8, 3e12])
def test_numbers_beside_an_axis_have_room(high):
    """From its right end, the longest number must end before the name of the axis begins."""
    ends = (min(high, 0.0), max(high, 0.0))
    chart = Chart(ends, ends, "x", "y", "a chart")
    drawn = re.findall(
        r'<text class="tick" x="([\d.]+)" y="([\d.]+)" text-anchor="(end|middle)">(.*?)</text>',
        str(chart.draw()),
    )
    beside = [(float(x), text) for x, _, anchor, text in drawn if anchor == "end"]
    below = sorted((float(x), text) for x, _, anchor, text in drawn if anchor == "middle")
    assert len(beside) > 1
    # 6.95 is the width of a digit of 12.5 pixels in the common sans serif fonts, 3.5 of a comma.
    assert all(x - sum(3.5 if c in ",." else 6.95 for c in text) >= 20 for x, text in beside)
    ends = [(x - 3.4 * len(text), x + 3.4 * len(text)) for x, text in below]
    assert all(one[1] <= two[0] for one, two in pairwise(ends))
    assert ends[-1][1] <= 420


def test_numbers_beside_an_axis_are_those_that_they_mark():
    for low, high in [(0.1, 0.11), (1000.2, 1001.4), (0, 3e7), (-0.002, 0.001)]:
        ticks = round_steps(low, high)
        read = [float(t.replace(",", "").replace("\N{MINUS SIGN}", "-")) for t in tick_texts(ticks)]
        assert read == pytest.approx(ticks, abs=0.01 * (ticks[1] - ticks[0]))


def test_charts_put_values_where_they_belong():
    chart = Chart((0, 10), (0, 1), "x", "y", "a chart")
    assert chart.at_x(0) < chart.at_x(5) < chart.at_x(10)
    assert chart.at_y(0) > chart.at_y(1)
    assert "<b>" not in str(Chart((0, 1), (0, 1), "<b>", "<b>", "<b>").text(0, 0, "<b>").draw())


@pytest.mark.slow
def test_a_page_on_many_rows_and_columns_with_long_names_is_below_3_mb(tmp_path):
    """100,000 rows of 200 columns whose names are as long as a page shows them."""
    from sklearn.ensemble import ExtraTreesClassifier

    rng = np.random.default_rng(0)
    names = [f"column {j} {'of a long name, ' * 5}" for j in range(200)]
    X = pd.DataFrame(rng.normal(size=(100_000, 200)).astype(np.float32), columns=names)
    noise = rng.normal(size=len(X))
    y = np.where(X.iloc[:, 0] * X.iloc[:, 1] + X.iloc[:, 2] + noise > 0, "yes", "no")
    trees = ExtraTreesClassifier(10, min_samples_leaf=5, max_features=20, random_state=0)
    model = KPPClassifier(trees, alpha=1e-2, random_state=0, tol=1e-2)
    model.fit(X[:80_000], y[:80_000])
    train = (X[:80_000], y[:80_000])
    path = report(model, X[80_000:], y[80_000:], tmp_path / "large.html", train=train)
    print(f"{path.stat().st_size:,} bytes")
    assert path.stat().st_size < 3_000_000
