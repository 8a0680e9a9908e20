"""Read the parameter names that a numpydoc docstring documents."""

import inspect
import re


def sections(thing):
    """Names under the heading Parameters, in order."""
    doc = inspect.getdoc(thing) or ""
    found = re.search(r"Parameters\n-+\n(.*?)(?:\n[A-Z][A-Za-z ]+\n-+\n|\Z)", doc, re.DOTALL)
    if found is None:
        return []
    lines = [line for line in found[1].splitlines() if line and not line.startswith(" ")]
    names = []
    for line in lines:
        names += [name.strip().lstrip("*") for name in line.split(" : ")[0].split(",")]
    return names
