"""Command of the suite.

Run in ``benchmarks``: ``python -m suite run --config suite/configs/suite.toml --out FOLDER
--data-dir DATA``. The same command continues a run that was stopped. ``python -m suite report --out
FOLDER`` writes the pages, also of a run under way.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from suite.config import read
from suite.rivals import ADAPTERS
from suite.runner import start, take_survey


def main() -> int:
    """Parse the command and do it."""
    parser = argparse.ArgumentParser(prog="python -m suite", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run, or continue, the tasks of a config")
    run.add_argument("--config", type=Path, required=True)
    run.add_argument("--out", type=Path, required=True, help="folder of the results")
    run.add_argument("--data-dir", help="folder with <name>.csv.gz; or KPP_DATA_DIR")
    run.add_argument("--workers", type=int, help="processes; the config's number by default")
    run.add_argument("--retry", action="store_true", help="run failed tasks again")
    run.add_argument("--sets", nargs="+", help="only these data sets now")
    run.add_argument("--methods", nargs="+", help="only these methods now")
    report = commands.add_parser("report", help="write the pages of a run")
    report.add_argument("--out", type=Path, required=True, help="folder of the results")
    page = commands.add_parser("page", help="fill the tables of the results page of the docs")
    page.add_argument("--page", type=Path, default=Path("../docs/results.md"))
    for name in ("suite", "ablations", "paper"):
        page.add_argument(f"--{name}", type=Path, default=Path("results") / name)
    check = commands.add_parser("check", help="say which data sets and methods are there")
    check.add_argument("--config", type=Path, required=True)
    check.add_argument("--data-dir")
    commands.add_parser("methods", help="list the adapters")
    arguments = parser.parse_args()
    if arguments.command == "methods":
        print("\n".join(f"{name}  ({known.distribution})" for name, known in ADAPTERS.items()))
    elif arguments.command == "check":
        survey = take_survey(read(arguments.config), arguments.data_dir)
        for name, (rows, columns) in survey.sizes.items():
            print(f"data {name}: {rows} rows, {columns} columns")
        for name, version in survey.versions.items():
            print(f"method {name}: {version}")
        absent = survey.missing_data | survey.missing_methods
        for name, reason in absent.items():
            print(f"MISSING {name}: {reason}")
        return int(bool(absent))
    elif arguments.command == "page":
        from suite.page import Sources, write

        sources = Sources(arguments.suite, arguments.ablations, arguments.paper)
        print(write(arguments.page, sources))
    elif arguments.command == "report":
        from suite.tables import write_report

        print(write_report(arguments.out))
    else:
        try:
            start(
                arguments.config,
                arguments.out,
                data_dir=arguments.data_dir,
                workers=arguments.workers,
                retry=arguments.retry,
                only_sets=arguments.sets,
                only_methods=arguments.methods,
            )
        except KeyboardInterrupt:
            print("stopped; the same command goes on from here", file=sys.stderr)
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
