"""A headless browser that reads a page from a file, and tells what it asked for."""

import json
import os
import shutil
from contextlib import contextmanager

import pytest

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
]


def _missing():
    for program in ("chromium", "chromedriver"):
        if shutil.which(program, path="/usr/bin") is None:
            return f"/usr/bin/{program} is not installed"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    return None


@contextmanager
def opened(folder):
    """A browser with an empty profile; the test is skipped where there is none."""
    reason = _missing()
    if reason is not None:
        if os.environ.get("KPP_REQUIRE_BROWSER") == "1":
            pytest.fail(f"KPP_REQUIRE_BROWSER=1, and {reason}.")
        pytest.skip(f"no browser: {reason}")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in [*FLAGS, f"--user-data-dir={folder}"]:
        options.add_argument(flag)
    options.add_experimental_option(
        "prefs",
        {"download.default_directory": str(folder), "download.prompt_for_download": False},
    )
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    try:
        yield driver
    finally:
        driver.quit()


def screen(driver, width, theme="light"):
    """Show pages at a width, in a theme of the system."""
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {
            "features": [
                {"name": "prefers-color-scheme", "value": theme},
                {"name": "prefers-reduced-motion", "value": "reduce"},
            ]
        },
    )
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )


def requested(driver):
    """Addresses that the browser asked for since the last call, that of the page itself too."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


# Texts that are seen, with their colours and what is behind them.
CONTRASTS = """
function parse(text) {
  const found = text.match(/[\\d.]+/g).map(Number);
  return found.length > 3 ? found : [...found, 1];
}
function over(top, below) {
  return [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
}
function behind(element) {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    layers.push(parse(getComputedStyle(e).backgroundColor));
  }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
}
function light(colour) {
  const [r, g, b] = colour.slice(0, 3).map(v => {
    v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
document.querySelectorAll("details").forEach(d => { d.open = true; });
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const skipped = ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(element.tagName);
  const box = element.getBoundingClientRect();
  if (!own || skipped || box.width < 2 || element.tagName === "title") continue;
  const style = getComputedStyle(element);
  const inSvg = element instanceof SVGElement;
  const back = behind(element);
  const front = over(parse(inSvg ? style.fill : style.color), back);
  const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), element.tagName + "." + element.getAttribute("class"),
    element.textContent.trim().slice(0, 30)]);
}
return found;
"""
