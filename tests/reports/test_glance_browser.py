"""Thresholds and costs in a real browser, by mouse and by keyboard, wide and narrow, dark."""

import numpy as np
import pytest
from reports.browser import CONTRASTS
from reports.subjects import data_of
from reports.test_browser import (  # noqa: F401
    OVERLAPS,
    address,
    driver,
    find,
    find_all,
    press,
    visit,
)

NAMES = ("count-true", "count-false", "count-missed", "count-rest")


def counts(driver):  # noqa: F811
    return [int(find(driver, f"#{name}").text.replace(",", "")) for name in NAMES]


def expected(k):
    found = data_of("binary")["sections"]["quality"]["finding"]
    true, false = found["true_positive"][k], found["false_positive"][k]
    return [true, false, found["n_positive"] - true, found["n_negative"] - false]


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_the_threshold_by_keyboard(visit, width, theme):  # noqa: F811
    from selenium.webdriver.common.keys import Keys

    page = visit("binary", width, theme)
    found = data_of("binary")["sections"]["quality"]["finding"]
    slider = find(page, "#threshold-slider")
    at, last = found["own"], len(found["threshold"]) - 1
    assert counts(page) == expected(at)
    for key, wanted in [
        (Keys.ARROW_RIGHT, at + 1),
        (Keys.ARROW_LEFT, at),
        (Keys.HOME, 0),
        (Keys.END, last),
    ]:
        press(slider, key)
        assert int(slider.get_property("value")) == wanted
        assert counts(page) == expected(wanted)
        assert float(find(page, "#threshold-value").text) == found["threshold"][wanted]
        true, false, missed, _ = expected(wanted)
        precision = f"{100 * true / (true + false):.1f}%" if true + false else "–"
        assert find(page, "#threshold-precision").text == precision
        assert find(page, "#threshold-recall").text == f"{100 * true / (true + missed):.1f}%"
    assert page.execute_script("return document.documentElement.scrollWidth") <= width
    assert slider.rect["height"] >= 32


def test_costs_name_the_best_threshold(visit):  # noqa: F811
    page = visit("binary")
    found = data_of("binary")["sections"]["quality"]["finding"]
    false = np.array(found["false_positive"])
    missed = found["n_positive"] - np.array(found["true_positive"])
    for of_false, of_missed in [(1, 1), (1, 25), (30, 1)]:
        for name, value in (("cost-false", of_false), ("cost-missed", of_missed)):
            find(page, f"#{name}").clear()
            press(find(page, f"#{name}"), str(value))
        find(page, "#threshold-best").click()
        cost = of_false * false + of_missed * missed
        k = int(find(page, "#threshold-slider").get_property("value"))
        assert cost[k] == cost.min()
        assert f"is {found['threshold'][k]:g}:" in find(page, "#threshold-advice").text
        shown = float(find(page, "#threshold-cost").text)
        assert shown == pytest.approx(
            cost.min() / (found["n_positive"] + found["n_negative"]), 1e-3
        )
    press(find(page, "#cost-false"), "-")
    find(page, "#cost-false").clear()
    assert "0 or more" in find(page, "#threshold-advice").text
    assert not find(page, "#threshold-best").is_enabled()
    assert page.get_log("browser") == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_new_sections_are_drawn_and_can_be_read(visit, width, theme):  # noqa: F811
    page = visit("binary", width, theme)
    for name in ("comparison", "segments"):
        assert len(find_all(page, f"#{name} svg.chart circle")) >= 3
    assert len(find_all(page, "#summary .tile")) >= 5
    found, _ = page.execute_script(OVERLAPS)
    assert found == []
    poor = [one for one in page.execute_script(CONTRASTS) if one[0] < 4.5]
    assert poor == []
