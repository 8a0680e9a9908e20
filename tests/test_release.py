"""What a release says of itself: versions, changelog, citation, the oldest versions it supports."""

import re
import tomllib
from pathlib import Path

import kpp

ROOT = Path(__file__).parents[1]


def test_the_oldest_versions_are_the_lower_ends():
    text = (ROOT / ".ci/oldest.txt").read_text()
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", text, re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    least = dict(one.split(">=") for one in wanted if ";" not in one and ">=" in one)
    needed = {one.split(">=")[0] for one in project["dependencies"]}
    assert needed == {"numpy", "scipy", "scikit-learn", "numba"}
    assert needed <= set(pins)
    assert pins == {name: least[name] for name in pins}


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (\S+)$", citation, re.M) == [kpp.__version__]
    (day,) = re.findall(r"^date-released: (\S+)$", citation, re.M)
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[:2] == ["Unreleased", f"{kpp.__version__} ({day})"]
