"""The tables of the paper, each a command.

Run in ``benchmarks``: ``python -m paper diabetes --out results/paper``, and likewise ``five``
(benchmark, ranks, leaf-only and node weights on the five sets), ``dashboard``, ``bounds``,
``radii``, and ``suite`` (mean ranks, tests, diagrams and ablations over the 40 sets, from a run of
the suite). ``all`` does every one, and ``index`` the page that lists them. ``conventions`` tries
what the paper leaves unsaid, and ``causes`` lists why figures differ.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from paper import causes, conventions, dashboard, diabetes, five, index, radii, suite_tables
from paper.models import Context
from paper.published import FIVE

COMMANDS = {
    "diabetes": diabetes.run,
    "dashboard": dashboard.run,
    "bounds": dashboard.run_bounds,
    "radii": radii.run,
    "five": five.run,
    "suite": suite_tables.run,
}


def main() -> None:
    """Run one command, or all."""
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    parser.add_argument("table", choices=[*COMMANDS, "all", "index", "conventions", "causes"])
    parser.add_argument("--data-dir", help="folder with <name>.csv.gz; or KPP_DATA_DIR")
    parser.add_argument("--out", type=Path, help="folder for the pages and figures")
    parser.add_argument("--sets", nargs="+", choices=list(FIVE), default=list(FIVE))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--run", help="folder of a run of the suite, for the table 'suite'")
    labels = [label for label in conventions.ENVIRONMENTS if label != "installed"]
    labels.append("stopping")
    parser.add_argument("--label", choices=labels, help="environment of 'conventions'")
    parser.add_argument("--what", choices=["all", "fixed", "rivals"], default="all")
    arguments = parser.parse_args()
    out = str(arguments.out) if arguments.out else None
    if arguments.table in ("index", "conventions", "causes"):
        if arguments.out is None:
            parser.error(f"{arguments.table} needs --out, the folder with the pages")
        if arguments.table == "index":
            print(index.write(arguments.out))
            return
        if arguments.table == "conventions" and arguments.label:
            sets = Context(arguments.data_dir, tuple(arguments.sets), arguments.seeds, out)
            if arguments.label == "stopping":
                conventions.run_stopping(sets)
            else:
                conventions.run(sets, arguments.label, arguments.what)
        (conventions if arguments.table == "conventions" else causes).write(arguments.out)
        return
    for name in COMMANDS if arguments.table == "all" else [arguments.table]:
        context = Context(
            arguments.data_dir, tuple(arguments.sets), arguments.seeds, out, arguments.run
        )
        figures, page = COMMANDS[name](context)
        page = page.rstrip() + "\n"
        print(page)
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            (arguments.out / f"paper_{name}.md").write_text(page)
            text = json.dumps(figures, indent=1) + "\n"
            (arguments.out / f"paper_{name}.json").write_text(text)
    if arguments.table == "all" and arguments.out:
        index.write(arguments.out)


if __name__ == "__main__":
    main()
