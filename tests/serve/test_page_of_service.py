"""The page in a real browser: a form from the schema, an answer, nothing from elsewhere."""

import time

import pytest
from reports.browser import CONTRASTS, opened, requested, screen
from serve.running import until


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("profile")) as found:
        yield found


def visit(driver, server, width=1280, theme="light"):
    screen(driver, width, theme)
    requested(driver)
    driver.get_log("browser")
    driver.get(f"{server.address}/")
    until(lambda: ready(driver, "ready"))


def ready(driver, name):
    return driver.execute_script(f"return document.documentElement.dataset.{name}") == "yes"


def find(driver, selector):
    return driver.find_element("css selector", selector)


def ask(driver):
    find(driver, "#ask").click()
    until(lambda: ready(driver, "answered"))


def fields(driver):
    return driver.find_elements("css selector", "[data-column]")


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_a_prediction_with_its_attribution_and_set(driver, server, width, theme):
    visit(driver, server, width, theme)
    size, colour, _, when, city, flag = fields(driver)
    for element, text in ((size, "61.5"), (when, "2020-05-06"), (city, "a town"), (flag, "1")):
        element.clear()
        element.send_keys(text)
    driver.execute_script("arguments[0].selectedIndex = 3", colour)  # after "missing": red
    ask(driver)
    row = [61.5, "red", "</script>", "2020-05-06", "a town", 1]
    predicted = server.post("/predict", {"rows": [row]}).data
    moved = server.post("/explain", {"rows": [row]}).data
    covered = server.post("/interval", {"rows": [row]}).data
    tiles = find(driver, "#tiles").text
    assert predicted["prediction"][0] in tiles
    assert f"{100 * max(predicted['probability'][0]):.1f}%" in tiles
    assert ", ".join(covered["set"][0]) in tiles
    lines = driver.find_elements("css selector", "#parts tbody tr")
    assert len(lines) == 6
    order = sorted(
        zip(moved["columns"], moved["contributions"][0], strict=True), key=lambda p: -abs(p[1])
    )
    for line, (name, value) in zip(lines, order, strict=True):
        shown = line.find_element("css selector", "th").text
        assert shown.split("\x1b")[0][:6] == name[:6]
        text = line.find_elements("css selector", "td")[-1].text
        assert float(text.replace("\u2212", "-").replace(",", "")) == float(f"{value:.5g}")
        assert line.find_element("css selector", "svg rect").rect["width"] >= 0
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    ratios = driver.execute_script(CONTRASTS)
    assert len(ratios) > 20
    assert [found for found in ratios if found[0] < 4.5] == []
    assert driver.get_log("browser") == []
    asked = [url for url in requested(driver) if not url.startswith(("chrome", "data:"))]
    assert asked
    assert all(url.startswith(server.address) for url in asked)


def test_what_is_wrong_stands_beside_its_field(driver, server):
    visit(driver, server)
    size, when = fields(driver)[0], fields(driver)[3]
    size.clear()
    size.send_keys("big")
    ask(driver)
    assert size.get_attribute("aria-invalid") == "true"
    assert "number" in find(driver, ".wrong").text
    assert find(driver, "#error").is_displayed()
    assert not find(driver, "#answer").is_displayed()
    size.clear()
    when.send_keys("yesterday")
    ask(driver)
    assert when.get_attribute("aria-invalid") == "true"
    when.clear()
    ask(driver)
    assert find(driver, "#answer").is_displayed()
    assert not find(driver, "#error").is_displayed()


def test_names_and_values_are_never_markup(driver, server):
    visit(driver, server)
    assert "<b>evil</b>" in find(driver, "#fields").text
    assert driver.find_elements("css selector", "#fields b") == []


def test_the_theme_can_be_chosen(driver, server):
    visit(driver, server)
    light = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    find(driver, "#theme").click()
    find(driver, "#theme").click()
    time.sleep(0.05)
    assert find(driver, "#theme-name").text == "dark"
    dark = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert dark != light
