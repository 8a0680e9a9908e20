"""Findings on a table, by code: the hundreds are of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kpp.diagnostics.findings import CONVENTION, DEFINITION, Check, Finding

MOST_NAMED = 5

DATA_CHECKS: tuple[Check, ...] = (
    Check(
        "KPP101",
        "columns with one value only",
        "info",
        "constant_columns",
        0.0,
        True,
        DEFINITION,
        "They cannot tell rows apart.",
        "Leave them out.",
    ),
    Check(
        "KPP102",
        "columns that are mostly missing",
        "info",
        "largest_missing_share",
        0.5,
        True,
        CONVENTION,
        "More than half of their values are missing.",
        "Find out why: whether a value is there may depend on the target.",
    ),
    Check(
        "KPP103",
        "rows that are copies of others",
        "warning",
        "excess_duplicates",
        0.01,
        True,
        "1% of the rows, by convention; not where ten times as many equal pairs as found would be "
        "chance among unrelated columns",
        "A row and its copy in the test rows make the score too good, and void guarantees.",
        "Remove the copies, or name the column of what repeats as groups.",
    ),
    Check(
        "KPP104",
        "columns that look like names of the rows",
        "info",
        "identifier_columns",
        0.0,
        True,
        DEFINITION,
        "They have another value in every row, and count up, are single words, or are called so.",
        "If they mean nothing, leave them out; a number of the row can carry the order of the "
        "table into the model.",
    ),
    Check(
        "KPP105",
        "columns that are the target under another name",
        "warning",
        "target_copies",
        0.0,
        True,
        DEFINITION,
        "They rename its classes one to one, or are a monotone function of its numbers.",
        "Leave them out, unless they are known before the target is.",
    ),
    Check(
        "KPP106",
        "columns that alone predict too well",
        "warning",
        "leaking_columns",
        0.0,
        True,
        "at most 1% of the variance left, out of fold; or at most 10%, and a tenth of what all "
        "other columns together leave; by convention, no false alarm in simulations",
        "They may be made from the target, or known only after it.",
        "Ask when each is known; leave out what is not known at prediction time.",
    ),
    Check(
        "KPP107",
        "one value of the target is nearly all",
        "info",
        "largest_target_share",
        0.9,
        True,
        CONVENTION,
        "A constant is right in more than nine of ten rows: accuracy says little.",
        "Look at the log loss, the precision-recall curve, and the scores of the rare class.",
    ),
    Check(
        "KPP108",
        "a class of few rows",
        "warning",
        "rows_of_rarest_class",
        10.0,
        False,
        "two rows in each of five folds",
        "A class has fewer than 10 rows: some folds have hardly any of it.",
        "Join it with another, or find more rows.",
    ),
    Check(
        "KPP109",
        "the rows are in the order of a date",
        "info",
        "ordering_dates",
        0.0,
        True,
        "99% of at least 19 steps go the same way; of rows in random order half do",
        "Test rows drawn at random lie between training rows in time; new rows will not.",
        "Test on the latest rows instead.",
    ),
)


def data_findings(
    figures: dict[str, float], named: dict[str, list[str]], silence: Sequence[str] = ()
) -> list[Finding]:
    """Run the checks of the data, warnings first.

    Parameters
    ----------
    figures : dict of float
        By name.
    named : dict of list of str
        The columns that a figure is about.
    silence : sequence of str
        Codes to leave out.

    Returns
    -------
    findings : list of Finding
        Their meaning begins with the columns.
    """
    found = []
    for check in DATA_CHECKS:
        finding = None if check.code in silence else check.compare(figures)
        if finding is None:
            continue
        columns = named.get(check.observable, [])
        if columns:
            shown = ", ".join(f"'{name}'" for name in columns[:MOST_NAMED])
            more = len(columns) - MOST_NAMED
            shown += f" and {more} more" if more > 0 else ""
            meaning = finding.meaning[0].lower() + finding.meaning[1:]
            finding = replace(finding, meaning=f"{shown}: {meaning}")
        found.append(finding)
    return sorted(found, key=lambda one: (one.severity != "warning", one.code))
