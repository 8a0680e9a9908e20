"""The rooms of the package: who may use whom, through public names only, in files of fair size."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "kpp"
MOST_LINES = 600

# What each room may use. Later rooms use earlier ones, never the other way round.
BELOW = ["forest", "geometry", "solvers", "scores", "models"]
READERS = ["export", "explanations", "certificates", "bounds", "diagnostics"]
MAY_USE = {
    "forest": [],
    "geometry": ["forest"],
    "solvers": ["geometry"],  # a map and a loss, never a forest
    "scores": ["forest", "geometry", "solvers"],
    "models": ["forest", "geometry", "solvers", "scores"],
    "export": BELOW,
    "explanations": [*BELOW, "export"],
    "certificates": BELOW,
    "bounds": BELOW,
    "diagnostics": [*BELOW, "bounds", "export", "explanations"],
    "dask": [*BELOW, *READERS],
    "io": [*BELOW, "export"],
    "views": [*BELOW, *READERS],
    "tables": [*BELOW, *READERS],
    "reports": [*BELOW, *READERS, "views", "tables"],
    "serve": [*BELOW, *READERS, "io", "views", "tables", "reports"],
    "cli": [*BELOW, *READERS, "dask", "io", "views", "tables", "reports", "serve"],
}

# Known exceptions, to be emptied: a line whose exception is gone must be deleted.
KNOWN = """
""".strip().splitlines()


class Checker:
    """Everything that breaks the rules in a package, one line each.

    Parameters
    ----------
    package : Path
        Its folder. Folders in it are rooms; files beside ``__init__.py`` are shared by all rooms
        and use none; ``__init__.py`` itself gives the public names of all.
    may_use : dict of str to list of str
        The rooms that each room may use.
    """

    def __init__(self, package: Path, may_use: dict[str, list[str]]) -> None:
        self.package, self.may_use = package, may_use
        self.trees = {
            path.relative_to(package).as_posix(): ast.parse(path.read_text("utf-8"))
            for path in sorted(package.rglob("*.py"))
        }
        # Public names of the package, and the room that each comes from.
        self.facade = {
            alias.asname or alias.name: [parts[0], alias.name]
            for parts, alias in self._imports("__init__.py", follow=False)
            if alias and parts
        }
        self.private_names: dict[str, set[str]] = {}
        for file, tree in self.trees.items():
            self.private_names.setdefault(room_of(file), set()).update(private_definitions(tree))

    def problems(self) -> set[str]:
        """One line for every breach, without line numbers: they would change too often."""
        found = set()
        for file in self.trees:
            found |= self._of_imports(file) | self._of_attributes(file)
            n_lines = len((self.package / file).read_text("utf-8").splitlines())
            if n_lines > MOST_LINES:
                found.add(f"{file}: more than {MOST_LINES} lines")
            if "/" in file and room_of(file) not in self.may_use:
                found.add(f"{room_of(file)}: a room that the table does not have")
        return found

    def _of_imports(self, file: str) -> set[str]:
        found, own = set(), room_of(file)
        for parts, alias in self._imports(file):
            full = [*parts, alias.name] if alias else parts
            other = full[0] if full else ""
            is_room = (self.package / other).is_dir()
            if other == own and is_room:
                continue
            name = ".".join(full) or "the whole package"
            if not other or other == "*":
                found.add(f"{file} uses the whole package")
            elif is_room and file != "__init__.py" and other not in self.may_use.get(own, []):
                found.add(f"{file} uses {name}: wrong way")
            # Beside the rooms stand private modules whose public names all may use.
            if any(map(is_private, full if is_room else full[1:])):
                found.add(f"{file} uses {name}: private")
        return found

    def _of_attributes(self, file: str) -> set[str]:
        """Private attributes of others that this room does not define, but another one does."""
        own = room_of(file)
        elsewhere = set().union(
            *(names for room, names in self.private_names.items() if room != own)
        )
        theirs = elsewhere - self.private_names[own]
        return {f"{file} uses .{name}: private" for name in private_uses(self.trees[file]) & theirs}

    def _imports(
        self, file: str, *, follow: bool = True
    ) -> Iterator[tuple[list[str], ast.alias | None]]:
        """Module, below the package, and name of every import, wherever in the file it stands.

        The names that ``from kpp import`` takes are followed to the rooms they come from.
        """
        package, home = self.package.name, [self.package.name, *file.split("/")[:-1]]
        for node in ast.walk(self.trees[file]):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first, *rest = alias.name.split(".")
                    if first == package:
                        yield rest, None
            elif isinstance(node, ast.ImportFrom):
                above = home[: len(home) - node.level + 1] if node.level else []
                first, *rest = [*above, *(node.module or "").split(".")]
                rest = [part for part in rest if part]
                for alias in node.names if first == package else ():
                    if follow and not rest and alias.name in self.facade:
                        yield self.facade[alias.name], None
                    else:
                        yield rest, alias


def room_of(file: str) -> str:
    return file.split("/")[0]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_definitions(tree: ast.AST) -> set[str]:
    """Private functions, classes, names and attributes of `self` that a file defines."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and is_own(node.value):
            names.update({node.attr} if isinstance(node.ctx, ast.Store) else ())
    return set(filter(is_private, names))


def private_uses(tree: ast.AST) -> set[str]:
    """Private attributes of anything but `self`, `cls` and `super()`, also by `getattr`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_own(node.value):
            names.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            by_name = node.func.id in ("getattr", "setattr", "hasattr", "delattr")
            if by_name and not is_own(node.args[0]) and isinstance(node.args[1], ast.Constant):
                names.add(str(node.args[1].value))
    return set(filter(is_private, names))


def is_own(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def test_the_rooms_of_the_package():
    found = Checker(PACKAGE, MAY_USE).problems()
    assert sorted(found - set(KNOWN)) == [], "new: use public names of rooms that may be used"
    assert sorted(set(KNOWN) - found) == [], "gone: delete these lines from KNOWN"
    assert len(KNOWN) == len(set(KNOWN))


def test_the_table_points_one_way():
    rooms = list(MAY_USE)
    for room, used in MAY_USE.items():
        assert set(used) <= set(rooms[: rooms.index(room)]), room


MADE = {
    "__init__.py": "from kpp.models import fit\nfrom kpp.forest import Tree\n__version__ = '1'\n",
    "_shared.py": "import numpy\n\n\ndef helper(): ...\n",
    "forest/__init__.py": "from kpp.forest._loops import Tree\n",
    "forest/_loops.py": "class Tree:\n    def __init__(self):\n        self._kept = 1\n",
    "models/__init__.py": "from kpp import Tree, __version__\nfrom kpp._shared import helper\n",
    "models/deep/__init__.py": "from .. import fit\nfrom ...forest import Tree\n",
}
BROKEN = {
    "upwards": (
        {"forest/a.py": "from kpp.models.fit import fit\n"},
        "forest/a.py uses models.fit.fit: wrong way",
    ),
    "upwards, inside a function": (
        {"forest/a.py": "def f():\n    import kpp.models.fit as m\n"},
        "forest/a.py uses models.fit: wrong way",
    ),
    "upwards, for types": (
        {"forest/a.py": "if TYPE_CHECKING:\n    from kpp.models import fit\n"},
        "forest/a.py uses models.fit: wrong way",
    ),
    "upwards, through the package": (
        {"forest/a.py": "from kpp import fit\n"},
        "forest/a.py uses models.fit: wrong way",
    ),
    "upwards, a relative import": (
        {"forest/a.py": "from ..models import fit\n"},
        "forest/a.py uses models.fit: wrong way",
    ),
    "the whole package": ({"models/a.py": "import kpp\n"}, "models/a.py uses the whole package"),
    "all names of the package": (
        {"models/a.py": "from kpp import *\n"},
        "models/a.py uses the whole package",
    ),
    "a shared module uses a room": (
        {"_more.py": "from kpp.forest import Tree\n"},
        "_more.py uses forest.Tree: wrong way",
    ),
    "a private module": (
        {"models/a.py": "from kpp.forest._loops import Tree\n"},
        "models/a.py uses forest._loops.Tree: private",
    ),
    "a private module as a name": (
        {"models/a.py": "from kpp.forest import _loops\n"},
        "models/a.py uses forest._loops: private",
    ),
    "a private name": (
        {"models/a.py": "from kpp.forest.trees import _cut\n"},
        "models/a.py uses forest.trees._cut: private",
    ),
    "a private name of a shared module": (
        {"models/a.py": "from kpp._shared import _inner\n"},
        "models/a.py uses _shared._inner: private",
    ),
    "a private name in the public ones": (
        {"__init__.py": "from kpp.forest._loops import Tree\n"},
        "__init__.py uses forest._loops.Tree: private",
    ),
    "a private attribute": (
        {"models/a.py": "def f(tree):\n    return tree._kept\n"},
        "models/a.py uses ._kept: private",
    ),
    "a private attribute by its name": (
        {"models/a.py": "def f(tree):\n    return getattr(tree, '_kept', None)\n"},
        "models/a.py uses ._kept: private",
    ),
    "a long file": (
        {"models/a.py": "\n" * (MOST_LINES + 1)},
        f"models/a.py: more than {MOST_LINES} lines",
    ),
    "a new room": ({"cellar/a.py": ""}, "cellar: a room that the table does not have"),
}
ALLOWED = {
    "own private names": {"forest/a.py": "from kpp.forest._loops import _cut\n"},
    "own attributes": {"models/a.py": "class A:\n    def f(self):\n        return self._kept\n"},
    "attributes of the same room": {"forest/a.py": "def f(tree):\n    return tree._kept\n"},
    "attributes of other libraries": {"models/a.py": "def f(tree):\n    return tree._theirs\n"},
    "other packages": {"forest/a.py": "import kppx.models\nfrom numpy import models\n"},
    "as long as may be": {"models/a.py": "\n" * MOST_LINES},
}


def made_package(folder, files):
    for name, text in (MADE | files).items():
        path = folder / "kpp" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Checker(folder / "kpp", {"forest": [], "models": ["forest"]})


@pytest.mark.parametrize("kind", BROKEN)
def test_each_kind_is_found(tmp_path, kind):
    files, line = BROKEN[kind]
    assert made_package(tmp_path, files).problems() == {line}


@pytest.mark.parametrize("kind", ALLOWED)
def test_what_is_allowed_is_not_found(tmp_path, kind):
    assert made_package(tmp_path, ALLOWED[kind]).problems() == set()
