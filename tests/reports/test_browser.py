"""The page in a real browser: it runs, asks for nothing, and can be used in every way."""

import itertools
import time

import pytest
from reports.browser import CONTRASTS, opened, requested, screen
from reports.subjects import HOSTILE, MAX_ROWS, data_of

from kpp.reports.page import render, write


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {}

    def of(kind):
        if kind not in made:
            name = kind.replace(" ", "_")
            made[kind] = write(render(data_of(kind)), folder / f"{name}.html").as_uri()
        return made[kind]

    return of


@pytest.fixture
def visit(driver, address):
    def show(kind, width=1280, theme="light"):
        screen(driver, width, theme)
        requested(driver)
        driver.get_log("browser")
        driver.get(address(kind))
        assert driver.execute_script("return document.documentElement.dataset.ready") == "yes"
        return driver

    return show


def find(driver, selector):
    return driver.find_element("css selector", selector)


def find_all(driver, selector):
    return driver.find_elements("css selector", selector)


def press(element, *keys):
    element.send_keys(*keys)


@pytest.mark.parametrize(
    "kind", ["binary", "multiclass", "regression", "several targets", "leaves", "table", "hostile"]
)
def test_it_loads_without_an_error_and_asks_for_nothing(visit, address, kind):
    driver = visit(kind)
    time.sleep(0.2)
    assert driver.get_log("browser") == []
    asked = [url for url in requested(driver) if not url.startswith(("chrome", "data:"))]
    assert asked == [address(kind)]


@pytest.mark.parametrize("kind", ["binary", "regression", "leaves"])
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_a_row_shows_its_interval_or_set(visit, kind, width, theme):
    driver = visit(kind, width, theme)
    shown = [own.text for own in find_all(driver, "#row-detail .range")]
    if kind == "leaves":  # a given alpha: no folds
        assert shown == []
        assert find(driver, "#intervals .box").text.startswith("No coverage is guaranteed")
        return
    rows = {row["row"]: row for row in data_of(kind)["sections"]["rows"]["rows"]}
    title = find(driver, "#row-detail h3").text
    row = rows[int(title.split("\u00b7")[0].removeprefix("Row ").strip())]
    name = "90% set: " if kind == "binary" else "90% interval: "
    truth = "holds the truth" if row["range"]["covers"] else "misses the truth"
    assert shown == [f"{name}{row['range']['text']} {truth}"]
    # One share for every level and bin, on a page that is not wider than its screen.
    assert len(find_all(driver, "#intervals circle.dot")) == 10 + 5
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_every_chart_is_drawn(visit, kind):
    driver = visit(kind)
    charts = find_all(driver, "svg.chart")
    assert len(charts) >= 6
    for chart in charts:
        box = chart.rect
        assert box["width"] > 200
        assert box["height"] > 100
    # Marks, not only axes.
    for name in ("robustness", "picture", "alpha", "intervals"):
        assert len(find_all(driver, f"#{name} svg.chart .line, #{name} svg.chart .row")) > 1


OVERLAPS = """
const found = [];
for (const chart of document.querySelectorAll("svg.chart")) {
  const all = chart.getBoundingClientRect();
  const names = [...chart.querySelectorAll("text.name")].map(t => t.getBoundingClientRect());
  const ticks = [...chart.querySelectorAll("text.tick")];
  const boxes = ticks.map(t => t.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right && b.left < a.right
    && a.top < b.bottom && b.top < a.bottom;
  boxes.forEach((box, i) => {
    const cut = box.left < all.left || box.right > all.right + 0.5;
    const hit = names.some(n => meet(n, box)) || boxes.some((o, j) => j < i && meet(o, box));
    if (cut || hit) found.push([chart.getAttribute("aria-label"), ticks[i].textContent]);
  });
}
return [found, document.querySelectorAll("svg.chart text.tick").length];
"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["large", "binary"])
def test_no_number_beside_an_axis_is_cut_off_or_covered(visit, kind, width):
    """Targets in millions: in the charts of the page, and in those that its script draws."""
    driver = visit(kind, width)
    for button in find_all(driver, "#variable-table button")[:3]:
        button.click()
        assert len(find_all(driver, "#effect svg.chart text.tick")) > 4
        found, n_ticks = driver.execute_script(OVERLAPS)
        assert n_ticks > 30
        assert found == []


def test_the_row_explorer_by_mouse(visit):
    driver = visit("binary")
    options = find_all(driver, "#row-list [role=option]")
    assert len(options) == MAX_ROWS
    seen = set()
    for option in options:
        option.click()
        assert option.get_attribute("aria-selected") == "true"
        number = option.text.split()[1]
        detail = find(driver, "#row-detail")
        text = detail.get_property("textContent")
        assert text.startswith(f"Row {number}")
        seen.add(number)
        row = next(
            r for r in data_of("binary")["sections"]["rows"]["rows"] if str(r["row"]) == number
        )
        assert row["predicted"] in text
        for word in ("What moved", "How far", "Rules", "Nearest", "Training rows", "Its values"):
            assert word in text
        bars = find_all(detail, ".waterfall svg rect")
        assert len(bars) == len(row["waterfalls"][0]["terms"]) + 2 + bool(
            row["waterfalls"][0]["n_others"]
        )
    assert len(seen) == MAX_ROWS
    assert len(find_all(driver, "#row-list [aria-selected=true]")) == 1


def test_the_row_explorer_by_keyboard(visit):
    from selenium.webdriver.common.keys import Keys

    driver = visit("binary")
    box = find(driver, "#row-list")
    names = [option.text.splitlines()[0] for option in find_all(driver, "#row-list li")]

    def chosen():
        active = find(driver, f"#{box.get_attribute('aria-activedescendant')}")
        assert active.get_attribute("aria-selected") == "true"
        assert find(driver, "#row-detail h3").text.split()[1] in active.text
        return names.index(active.text.splitlines()[0])

    # It is reached by the tab key, and shows that it is.
    press(find(driver, "#row-order"), Keys.TAB)
    assert driver.switch_to.active_element == box
    assert box.value_of_css_property("outline-style") == "solid"
    assert chosen() == 0
    for key, wanted in [
        (Keys.ARROW_DOWN, 1),
        (Keys.ARROW_DOWN, 2),
        (Keys.ARROW_UP, 1),
        (Keys.END, MAX_ROWS - 1),
        (Keys.ARROW_DOWN, MAX_ROWS - 1),
        (Keys.HOME, 0),
        (Keys.ARROW_UP, 0),
        (Keys.PAGE_DOWN, MAX_ROWS - 1),
        (Keys.PAGE_UP, 0),
    ]:
        press(box, key)
        assert chosen() == wanted


def test_rows_are_found_and_ordered(visit):
    from selenium.webdriver.support.ui import Select

    driver = visit("binary")
    rows = data_of("binary")["sections"]["rows"]["rows"]

    def listed():
        return [int(option.text.split()[1]) for option in find_all(driver, "#row-list li")]

    for order, key in [
        ("error", lambda r: -r["error"]),
        ("radius", lambda r: r["radius"]),
        ("margin", lambda r: r["margin"]),
        ("row", lambda r: r["row"]),
    ]:
        Select(find(driver, "#row-order")).select_by_value(order)
        assert listed() == [row["row"] for row in sorted(rows, key=key)]
    press(find(driver, "#row-filter"), "malignant")
    assert 0 < len(listed()) <= MAX_ROWS
    press(find(driver, "#row-filter"), " nothing like it")
    assert listed() == []
    assert find(driver, "#row-count").text.startswith("0 of")


def test_variables_are_found_ordered_and_shown(visit):
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    driver = visit("binary")
    buttons = find_all(driver, "#variable-table button")
    assert find(driver, "#effect h3").text == buttons[0].text.removeprefix("▸ ")
    name = buttons[2].text
    press(buttons[2], Keys.ENTER)
    assert find(driver, "#effect h3").text == name
    assert buttons[2].get_attribute("aria-pressed") == "true"
    # Of its contributions, and of the residuals below them.
    assert len(find_all(driver, "#effect svg .band")) == 2
    Select(find(driver, "#variable-order")).select_by_value("name")
    names = [button.text for button in find_all(driver, "#variable-table tbody bdi")]
    assert names == sorted(names)
    press(find(driver, "#variable-filter"), "concave")
    left = [line for line in find_all(driver, "#variable-table tbody tr") if line.is_displayed()]
    assert len(left) == 3


def test_each_class_has_its_own_effects(visit):
    from selenium.webdriver.support.ui import Select

    driver = visit("multiclass")
    section = data_of("multiclass")["sections"]["variables"]
    for k in range(3):
        Select(find(driver, "#variable-output")).select_by_value(str(k))
        largest = max(section["variables"], key=lambda v: v["mean_abs"][k])
        first = find(driver, "#variable-table tbody tr bdi").text
        assert first == largest["name"]
        assert f"score of {section['outputs'][k]}" in find(driver, "#effect").text


def test_hostile_names_are_shown_and_do_nothing(visit):
    from selenium.common.exceptions import NoAlertPresentException

    driver = visit("hostile")
    for option in find_all(driver, "#row-list li"):
        option.click()
    for button in find_all(driver, "#variable-table button"):
        button.click()
    time.sleep(0.2)
    with pytest.raises(NoAlertPresentException):
        _ = driver.switch_to.alert
    assert driver.get_log("browser") == []
    assert len(find_all(driver, "img, iframe, object")) == 0
    assert len(find_all(driver, "script")) == 2
    text = find(driver, "#variable-table").text
    assert HOSTILE[0] in text
    assert "{{7*7}}" in text
    assert "49" not in text


def test_the_policy_stops_a_script_from_the_data(visit):
    driver = visit("binary")
    driver.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.broken = 1';"
        "document.body.append(s);"
    )
    assert driver.execute_script("return window.broken") is None
    assert "Content Security Policy" in driver.get_log("browser")[0]["message"]


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("kind", ["large", "regression"])
def test_numbers_below_the_bars_of_a_row_do_not_touch(visit, kind, width):
    driver = visit(kind, width)
    time.sleep(0.3)
    rows = driver.execute_script(
        "return [...document.querySelectorAll('.axis-row')].map(svg => {"
        " const all = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());"
        " const box = svg.getBoundingClientRect();"
        " return all.map(b => [b.left - box.left, b.right - box.left, box.width]); })"
    )
    assert rows
    for boxes in rows:
        assert boxes
        for left, right, whole in boxes:
            assert left >= -1
            assert right <= whole + 1
        for (_, right, _), (left, _, _) in itertools.pairwise(boxes):
            assert right < left


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_open_tables_of_intervals_have_all_their_columns_on_the_screen(visit, kind, width):
    driver = visit(kind, width)
    driver.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; });")
    room = driver.execute_script(
        "return [...document.querySelectorAll('#intervals details.numbers')]"
        ".map(d => [d.scrollWidth, d.clientWidth]);"
    )
    assert len(room) == 2
    for needed, there in room:
        assert needed <= there


@pytest.mark.parametrize("kind", ["binary", "regression", "several targets", "hostile"])
def test_a_narrow_page_does_not_scroll_sideways(visit, kind):
    driver = visit(kind, width=390)
    widths = driver.execute_script(
        "document.querySelectorAll('details').forEach(d => { d.open = true; });"
        "return [document.documentElement.scrollWidth, document.body.scrollWidth]"
    )
    assert widths == [390, 390]
    # What is pressed is large enough for a finger.
    for selector in ("#row-filter", "#row-order", "#theme", "#row-list li"):
        assert find(driver, selector).rect["height"] >= 32


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_all_text_has_contrast(visit, kind, theme):
    driver = visit(kind, theme=theme)
    found = driver.execute_script(CONTRASTS)
    assert len(found) > 200
    poor = [one for one in found if one[0] < 4.5]
    assert poor == []


def test_the_theme_follows_the_system_and_the_button(visit):
    driver = visit("binary", theme="dark")

    def background():
        colour = find(driver, "body").value_of_css_property("background-color")
        return "dark" if colour == "rgba(17, 22, 27, 1)" else "light"

    button = find(driver, "#theme")
    told = [(button.text, background())]
    for _ in range(3):
        button.click()
        told.append((button.text, background()))
    assert told == [
        ("Theme: system", "dark"),
        ("Theme: light", "light"),
        ("Theme: dark", "dark"),
        ("Theme: system", "dark"),
    ]
    screen(driver, 1280, "light")
    assert background() == "light"


def test_the_skip_link_leads_to_the_report(visit):
    from selenium.webdriver.common.keys import Keys

    driver = visit("binary")
    press(find(driver, "body"), Keys.TAB)
    skip = driver.switch_to.active_element
    assert skip.text == "Skip to the report"
    press(skip, Keys.ENTER)
    assert driver.switch_to.active_element.get_attribute("id") == "main"
