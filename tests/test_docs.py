"""The pages: links lead somewhere, and nothing is left to be filled in."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_placeholders(page):
    assert not re.search(r"TODO|FIXME|TBD|XXX|\b[A-Z]{4,}TABLE\b", page.read_text())
