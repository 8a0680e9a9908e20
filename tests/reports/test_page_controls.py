"""Files from the page, links to rows, filters, words that explain themselves, and paper."""

import csv
import io
import time
from xml.etree import ElementTree

import pytest
from reports.browser import opened, screen
from reports.subjects import HOSTILE, MAX_ROWS, data_of
from reports.test_browser import find, find_all, press

from kpp.reports.glossary import GLOSSARY, REGIMES, SAME, find_word, place_of
from kpp.reports.page import render, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def driver(folder):
    with opened(folder) as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    pages = tmp_path_factory.mktemp("pages")
    return lambda kind: write(render(data_of(kind)), pages / f"{kind}.html").as_uri()


@pytest.fixture
def visit(driver, address):
    def show(kind, width=1280, end="", theme="light"):
        screen(driver, width, theme)
        driver.get("about:blank")
        driver.get_log("browser")
        driver.get(address(kind) + end)
        assert driver.execute_script("return document.documentElement.dataset.ready") == "yes"
        return driver

    return show


def saved(folder, button):
    """Press a button, and read the file that appears."""
    before = set(folder.iterdir())
    button.send_keys("\n")
    for _ in range(100):
        new = [p for p in set(folder.iterdir()) - before if p.suffix in (".csv", ".svg")]
        if new:
            return new[0].name, new[0].read_bytes().decode()
        time.sleep(0.05)
    raise AssertionError("no file was saved")


def test_tables_are_saved_as_csv(visit, folder):
    driver = visit("binary")
    name, text = saved(folder, find(driver, "#variable-table + .save"))
    assert name.startswith("variables-")
    head, *lines = csv.reader(io.StringIO(text))
    assert head == ["Variable", "Mean size"]
    known = {
        own["name"]: sum(own["mean_abs"])
        for own in data_of("binary")["sections"]["variables"]["variables"]
    }
    assert {line[0] for line in lines if line[0] in known} == set(known)
    for line in lines:
        if line[0] in known:  # three digits are shown
            assert float(line[1]) == pytest.approx(known[line[0]], rel=5e-3)
    assert driver.get_log("browser") == []
    # Every table has its button, also those of the chosen row; none has two.
    tables, buttons = find_all(driver, "main table"), find_all(driver, "main table + .save")
    assert len(tables) == len(buttons) > 10
    find_all(driver, "#row-list li")[2].click()
    time.sleep(0.1)
    inside = find_all(driver, "#row-detail table")
    assert len(inside) == len(find_all(driver, "#row-detail .save")) > 3


def test_a_name_that_looks_like_a_formula_is_none_in_the_file(driver, visit):
    visit("binary")
    found = driver.execute_script(
        "const t = document.createElement('table'); const r = t.insertRow();"
        "for (const s of ['=1+1', '@x', '-1.5', '\u22121,234.5', '+0.25', 'a\"b,c', '-x'])"
        "  r.insertCell().textContent = s;"
        "document.getElementById('main').append(t); return t.outerHTML;"
    )
    assert "=1+1" in found
    driver.execute_script(
        "window.kept = []; URL.createObjectURL = b => { b.text().then(t => kept.push(t));"
        "return 'blob:none'; }; HTMLAnchorElement.prototype.click = () => {};"
    )
    press(find(driver, "main > table + .save"), "\n")
    time.sleep(0.2)
    lines = list(csv.reader(io.StringIO(driver.execute_script("return kept[0]"))))
    assert lines == [["'=1+1", "'@x", "-1.5", "-1234.5", "0.25", 'a"b,c', "'-x"]]


@pytest.mark.parametrize("where", ["#robustness", "#effect", "#whatif-curve"])
def test_pictures_are_saved_as_svg(visit, folder, where):
    driver = visit("binary")
    source = find(driver, f"{where} svg.chart")
    name, text = saved(folder, find(driver, f"{where} svg.chart + .save"))
    assert name.endswith(".svg")
    tree = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert tree.tag == f"{space}svg"
    lines = [one for one in tree.iter(f"{space}path") if one.get("stroke", "none") != "none"]
    assert len(lines) > 3
    # It is by itself: no class, no variable of the page.
    assert not [one for one in tree.iter() if one.get("class")]
    assert "var(" not in text
    assert source.get_dom_attribute("viewBox").split()[2] == tree.get("width")


def test_an_address_leads_to_its_row_and_follows_the_choice(visit, driver):
    rows = data_of("binary")["sections"]["rows"]["rows"]
    wanted = rows[3]["row"]
    visit("binary", end=f"#row-{wanted}")
    assert find(driver, "#row-detail h3").text.startswith(f"Row {wanted}")
    assert driver.execute_script("return document.getElementById('whatif-row').value") == "3"
    option = find_all(driver, "#row-list li")[0]
    option.click()
    number = option.text.split()[1]
    assert driver.current_url.endswith(f"#row-{number}")
    # From one row to another by the address alone.
    driver.execute_script(f"location.hash = '#row-{rows[1]['row']}'")
    time.sleep(0.1)
    assert find(driver, "#row-detail h3").text.startswith(f"Row {rows[1]['row']}")
    driver.execute_script("location.hash = '#row-999999'")
    time.sleep(0.1)
    assert "999999 is not among" in find(driver, "#row-count").text
    # A page that is opened at a section stays there.
    visit("binary", end="#bounds")
    assert driver.current_url.endswith("#bounds")


def test_rows_are_filtered(visit, driver):
    from selenium.webdriver.support.ui import Select

    visit("binary")
    rows = data_of("binary")["sections"]["rows"]["rows"]

    def listed():
        return {int(option.text.split()[1]) for option in find_all(driver, "#row-list li")}

    for name, key in (("right", "is_right"), ("class", "actual"), ("reason", "reason")):
        select = Select(find(driver, f"#row-{name}"))
        for option in [o.get_attribute("value") for o in select.options]:
            select.select_by_value(option)
            wanted = {
                row["row"]
                for row in rows
                if option == "" or str(row[key]).lower() == option.lower()
            }
            assert listed() == wanted
        select.select_by_value("")
    assert len(listed()) == MAX_ROWS


def test_words_explain_themselves_by_key_and_touch(visit, driver):
    from selenium.webdriver.common.keys import Keys

    visit("binary", width=390)
    word = find(driver, "#fitted .term")
    box = find(driver, "#" + word.get_attribute("popovertarget"))
    assert not box.is_displayed()
    press(word, Keys.ENTER)
    assert box.is_displayed()
    assert GLOSSARY["regime"] in box.text
    place = box.rect
    assert place["x"] >= 0
    assert place["x"] + place["width"] <= 390
    assert word.get_attribute("aria-expanded") == "true"
    press(driver.switch_to.active_element, Keys.ESCAPE)
    assert not box.is_displayed()
    word.click()
    assert box.is_displayed()
    # Those of the chosen row too, which the script made.
    assert len(find_all(driver, "#row-detail .term")) >= 3
    ids = driver.execute_script(
        "return [...document.querySelectorAll('.term')].map(w => w.getAttribute('popovertarget'))"
    )
    assert set(ids) <= {place_of(known) for known in {**GLOSSARY, **REGIMES}}


def test_the_glossary_is_one_list():
    assert set(SAME.values()) <= set(GLOSSARY)
    listed = {entry["word"] for entry in data_of("binary")["sections"]["appendix"]["glossary"]}
    assert listed == set(GLOSSARY)
    assert find_word("Out-of-Fold") == "out of fold"
    assert find_word("nothing of the kind") is None
    assert len({place_of(word) for word in {**GLOSSARY, **REGIMES}}) == len(GLOSSARY) + len(REGIMES)


HIDDEN = """
return [...document.querySelectorAll('main th, main td')].filter(cell => {
  const style = getComputedStyle(cell);
  return style.display === 'none' || style.visibility === 'hidden' || (cell.offsetParent
    && cell.textContent.trim() && cell.getBoundingClientRect().width < 8);
}).map(cell => cell.textContent);
"""


@pytest.mark.parametrize("kind", ["binary", "regression"])
def test_no_column_is_hidden_on_a_narrow_page(visit, driver, kind):
    visit(kind, width=390)
    driver.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert driver.execute_script(HIDDEN) == []
    assert driver.execute_script("return document.documentElement.scrollWidth") == 390


def test_every_control_is_reached_by_the_keyboard(visit, driver):
    visit("multiclass")
    found = driver.execute_script(
        "return [...document.querySelectorAll('button, input, select, summary, a, [tabindex]')]"
        ".filter(e => e.offsetParent && e.tabIndex < 0 && e.id !== 'main').map(e => e.outerHTML)"
    )
    assert found == []
    unnamed = driver.execute_script(
        "return [...document.querySelectorAll('button, input, select')].filter(e => e.offsetParent"
        "&& !e.textContent.trim() && !e.getAttribute('aria-label') && !e.labels.length).length"
    )
    assert unnamed == 0


def test_paper_has_everything_open_and_no_control(visit, driver):
    visit("binary", theme="dark")
    driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        closed = driver.execute_script(
            "return document.querySelectorAll('main details:not([open])').length"
        )
        assert closed == 0
        seen = driver.execute_script(
            "return [...document.querySelectorAll('main input, main select, main .save, #theme')]"
            ".filter(e => e.offsetParent).length"
        )
        assert seen == 0
        colour = find(driver, "body").value_of_css_property("background-color")
        assert colour == "rgba(255, 255, 255, 1)"
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    driver.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert find_all(driver, "main details:not([open])")


def test_hostile_names_do_nothing_in_the_new_controls(visit, driver, folder):
    visit("hostile")
    for control in find_all(driver, "#whatif-table button"):
        control.click()
    driver.execute_script(
        "for (const s of document.querySelectorAll('#whatif-table select, #row-class')) {"
        "s.selectedIndex = s.options.length - 1; s.dispatchEvent(new Event('change')); }"
    )
    _, text = saved(folder, find(driver, "#variable-table + .save"))
    names = [line[0] for line in csv.reader(io.StringIO(text))]
    assert HOSTILE[0] in names
    assert driver.get_log("browser") == []
    assert len(find_all(driver, "img, iframe, object")) == 0
    assert len(find_all(driver, "script")) == 2
