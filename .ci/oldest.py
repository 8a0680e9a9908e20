"""Print, for pip, the oldest versions of what the package needs, as pyproject.toml has them.

Also of the libraries for tables that the tests use: the newest ones do not work beside a NumPy or
a scikit-learn that is much older.
"""

import tomllib
from pathlib import Path

TABLES = ("pandas", "polars", "pyarrow")

text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
project = tomllib.loads(text)["project"]
tables = [r for r in project["optional-dependencies"]["test"] if r.startswith(TABLES)]
for requirement in project["dependencies"] + tables:
    print(requirement.replace(">=", "=="))
