"""The pages: links lead somewhere, what they name exists, and no code block goes unchecked."""

import ast
import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

import kpp

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])
DOC_PAGES = sorted(DOCS.glob("**/*.md"))
ROOMS = ["bounds", "certificates", "diagnostics", "explanations", "export", "forest", "geometry"]
ROOMS += ["io", "models", "reports", "solvers"]


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_placeholders(page):
    assert not re.search(r"TODO|FIXME|TBD|XXX|\b[A-Z]{4,}TABLE\b", page.read_text())


# The statements of the paper: number and label, in its own order. What has no label of its own is
# found under the nearest one.
PAPER = {
    "setup": [
        ("Assumption 3.1", "ass:data"),
    ],
    "construction": [
        ("Definition 4.1", "def:recursive-binary-partition"),
        ("Lemma 4.2", "lem:path-decomposition"),
        ("Assumption 4.3", "ass:zero-leaf-weights"),
        ("Remark 4.4", "rem:zero-leaf-convention"),
        ("Definition 4.5", "eq:tree-path-distance"),
        ("Lemma 4.6", "lem:node-path-edge-sum"),
        ("Definition 4.7", "def:tree-embedding"),
        ("Theorem 4.8", "thm:kpp-isometry-tree"),
        ("Corollary 4.9", "cor:kpp-isometry-forest"),
        ("Proposition 4.10", "prop:norm-bound"),
        ("Remark 4.11", "rem:two-normalizations"),
        ("Corollary 4.12", "cor:gram-psd-nondiagonal"),
        ("Remark 4.13", "rem:path-overlap-distance"),
        ("Remark 4.14", "rem:global-vs-averaged-gram"),
        ("Proposition 4.15", "prop:entrywise-concentration"),
        ("Corollary 4.16", "sec:gram-concentration"),
        ("Remark 4.17", "rem:operator-norm-diagnostic"),
    ],
    "attribution": [
        ("Proposition 5.1", "prop:attribution-node"),
        ("Proposition 5.2", "prop:attribution-variable"),
        ("Remark 5.3", "rem:attribution-split-coordinates"),
        ("Remark 5.4", "rem:attribution-identifiability"),
        ("Remark 5.5", "rem:attribution-not-axiomatic"),
    ],
    "radius": [
        ("Proposition 6.1", "prop:lipschitz-kpp"),
        ("Remark 6.2", "rem:deltaT-half-metric"),
        ("Proposition 6.3", "prop:classification-robust-radius"),
        ("Assumption 6.4", "ass:direct-score-margin"),
    ],
    "bounds": [
        ("Section", "sec:radical-honesty"),
        ("Proposition 7.1", "prop:trace-rademacher"),
        ("Proposition 7.2", "prop:uniform-squared-loss-bound"),
        ("Proposition 7.3", "prop:ridge-bias-variance"),
        ("Remark 7.4", "rem:deff-scope"),
        ("Remark 7.5", "rem:bias-variance-regime"),
        ("Theorem 7.6", "thm:uniform-logistic-bound"),
        ("Lemma 7.7", "lem:partition-telescoping"),
        ("Corollary 7.8", "cor:variance-oracle"),
        ("Corollary 7.9", "cor:entropy-oracle"),
        ("Remark 7.10", "rem:raw-forest-sum-pitfall"),
    ],
    "experiments": [
        ("Section", "sec:bench-five-datasets"),
        ("Section", "sec:bench-demsar"),
        ("Section", "sec:dashboard-conditional"),
        ("Section", "sec:diabetes-honest-crossfit"),
    ],
    "appendices": [
        ("Appendix A", "app:norm-bound"),
        ("Appendix B", "app:nonzero-leaf-weights"),
        ("Appendix C", "app:ridge-primal-dual"),
        ("Appendix D", "app:honesty-matters"),
        ("Appendix E", "app:variance-gain-choice"),
        ("Appendix F", "app:logistic-calibration-proof"),
        ("Appendix G", "app:entropy-telescoping-proof"),
        ("Appendix H", "app:counterexample-margin"),
    ],
}


def entries(page):
    """The statements on a page of the guide: heading, sentence, and the three lines of each."""
    for part in re.split(r"^### ", page.read_text(), flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        lines = {
            key: re.findall(r"`([^`]+)`", line)
            for key, line in re.findall(r"^- (Paper|Code|Test): (.*)$", body, flags=re.M)
        }
        yield heading, body.partition("\n- ")[0].strip(), lines


@pytest.mark.parametrize("section", PAPER)
def test_the_guide_lists_every_statement_of_the_paper(section):
    listed = [
        (heading, *lines["Paper"]) for heading, _, lines in entries(DOCS / f"guide/{section}.md")
    ]
    for number, label in PAPER[section]:
        found = [heading for heading, known in listed if known == label]
        assert len(found) == 1, label
        assert found[0].startswith(f"{number} "), label
    expected = [label for _, label in PAPER[section]]
    assert [label for _, label in listed if label in expected] == expected  # in the paper's order


@pytest.mark.parametrize("section", PAPER)
def test_what_the_guide_names_exists(section):
    for heading, sentence, lines in entries(DOCS / f"guide/{section}.md"):
        assert sentence, heading
        assert set(lines) == {"Paper", "Code", "Test"}, heading
        path, thing = lines["Code"]
        assert (ROOT / path).is_file(), path
        resolve(thing)
        path, *tests = lines["Test"]
        check_tests(path, tests)
        assert tests or path.endswith(".md"), heading


def test_the_proofs_name_tests_that_exist():
    rows = re.findall(r"^  Test: `([^`]+)`: (.*)$", (DOCS / "proofs.md").read_text(), flags=re.M)
    assert len(rows) == 16  # two claims have tests in two files
    for path, listed in rows:
        check_tests(path, re.findall(r"`([^`]+)`", listed))


def check_tests(path, tests):
    """A test is a function of the file, at its top level."""
    assert (ROOT / path).is_file(), path
    if path.endswith(".py"):
        functions = {
            node.name
            for node in ast.parse((ROOT / path).read_text()).body
            if isinstance(node, ast.FunctionDef)
        }
        assert set(tests) <= functions, (path, set(tests) - functions)


def resolve(path):
    """The object that a dotted path names: the longest module, then attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for name in parts[cut:]:
            thing = getattr(thing, name)
        return thing
    raise AssertionError(f"{path} names nothing")


def documented():
    """Every object that an API page shows, by its path."""
    for page in sorted((DOCS / "api").glob("*.md")):
        yield from re.findall(r"^::: (\S+)$", page.read_text(), flags=re.M)


def test_the_api_documents_every_public_name_exactly_once():
    things = [resolve(path) for path in documented()]
    times = Counter(id(thing) for thing in things)
    for name in kpp.__all__:
        assert times[id(getattr(kpp, name))] == 1, name
    assert set(times.values()) == {1}


@pytest.mark.parametrize("room", ROOMS)
def test_the_api_shows_only_functions_that_can_be_imported(room):
    """From kpp or from the room of the page. Types may be shown that only results are of."""
    module = importlib.import_module(f"kpp.{room}")
    public = {*kpp.__all__, *module.__all__}
    page = (DOCS / "api" / f"{room}.md").read_text()
    shown = {path.rpartition(".")[2] for path in re.findall(r"^::: (\S+)$", page, flags=re.M)}
    assert {name for name in shown if name.islower()} <= public


def test_what_a_model_answers_is_found_from_the_first_pages():
    for page in (DOCS / "index.md", DOCS / "howto" / "index.md"):
        assert re.search(r"\]\((\.\./)?intervals\.md\)", page.read_text()), page


@pytest.mark.parametrize("room", ROOMS)
def test_the_api_documents_every_room(room):
    module = importlib.import_module(f"kpp.{room}")
    shown = {id(resolve(path)) for path in documented()}
    for name in module.__all__:
        assert id(getattr(module, name)) in shown, name


# Code blocks. Python runs as a doctest, which pytest collects; commands run below.

FENCE = re.compile(r"^((?:<!-- [^\n]* -->\n)?)```(\w*)\n(.*?)^```$", flags=re.M | re.S)
SKIPPED = re.compile(r"<!-- not run: (.+) -->")
# Written by `python -m suite page`; its commands take hours, and test_suite.py runs them on little.
WRITTEN = {"results.md"}


def blocks(page):
    """Marker, language and text of every fenced block."""
    return [found.groups() for found in FENCE.finditer(page.read_text())]


@pytest.mark.parametrize("page", DOC_PAGES, ids=name_of)
def test_no_block_goes_unchecked(page):
    if page.name in WRITTEN:
        return
    assert page.read_text().count("\n```") == 2 * len(blocks(page))  # indented ones are not found
    for marker, language, text in blocks(page):
        assert language in ("python", "sh", "text", "json", "yaml"), (
            f"a block of {language or 'nothing'}"
        )
        if language == "python":
            assert text.startswith(">>> "), "Python runs as a doctest: write >>> before it"
        if language == "sh" and not SKIPPED.match(marker):
            assert not re.search(r"\b(pip|apt|git|curl|wget|sudo)\b", text), (
                f"say why this is not run, <!-- not run: why -->: {text}"
            )


WITH_COMMANDS = [
    page
    for page in DOC_PAGES
    if any(language == "sh" and not SKIPPED.match(marker) for marker, language, _ in blocks(page))
]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_of)
def test_commands_run(page, tmp_path):
    if find_spec("typer") is None:
        pytest.skip("the command needs the extra 'cli'")
    folder = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": folder + os.pathsep + os.environ["PATH"]}
    script = "\n".join(
        text
        for marker, language, text in blocks(page)
        if language == "sh" and not SKIPPED.match(marker)
    )
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# The site.


class Loaded(HTMLParser):
    """What a page loads by itself."""

    def __init__(self, source):
        super().__init__()
        self.addresses = []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(named.get("src") or "")
        elif tag == "link":
            self.addresses.append(named.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for module in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        if find_spec(module) is None:
            pytest.skip(f"the site needs {module}, of the extra 'docs'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_builds_and_every_page_can_be_found(site):
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"(\S+\.md)$", navigation, flags=re.M)
    assert sorted(listed) == sorted({*listed}), "a page stands twice"
    own = {page.relative_to(DOCS).as_posix() for page in DOC_PAGES}
    assert own <= {*listed}, "pages that the navigation lacks"
    for page in listed:
        assert (site / page).with_suffix(".html").is_file(), page


def test_the_site_loads_nothing_from_elsewhere(site):
    pages = sorted(site.glob("**/*.html"))
    assert len(pages) > 40
    for page in pages:
        for address in Loaded(page.read_text()).addresses:
            assert "//" not in address, (page, address)
    for style in site.glob("**/*.css"):
        assert not re.search(r"@import|url\(\W?https?:", style.read_text()), style


def test_the_site_shows_formulas_and_not_their_source(site):
    for page in sorted((site / "api").glob("*.html")):
        text = page.read_text()
        assert ":math:" not in text, page
        assert ".. math::" not in text, page
    assert (
        '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">'
        in (site / "api/certificates.html").read_text()
    )
