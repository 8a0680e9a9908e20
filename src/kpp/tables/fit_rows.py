"""Which rows of a table a fit has used and which it held out; and which of them a command takes."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpp._typing import AnyArray
from kpp.tables.columns import model_columns
from kpp.tables.errors import UserError
from kpp.tables.fingerprints import Prints, table_fingerprints
from kpp.tables.grouping import in_groups
from kpp.tables.numbers import count

NEW, FITTED, HELD_OUT = 0, 1, 2
# Beyond this the fingerprints would fill what a file has room for.
MOST_ROWS = 4_000_000
KEY = "rows"


@dataclass(frozen=True, eq=False)
class FitRows:
    """The rows that a fit was given, as fingerprints.

    Parameters
    ----------
    table : uint64 array of shape (n_rows,)
        Of all rows of the table, in its order.
    part : uint8 array of shape (n_rows,)
        What became of each: FITTED, HELD_OUT, or NEW for one that was left out.
    test_file : uint64 array of shape (n_test_rows,)
        Of the rows of a test file of their own.
    groups : uint64 array of shape (n_groups,) or None
        Of the groups of the rows that the fit has used; None where rows have no groups.
    """

    table: Prints
    part: AnyArray
    test_file: Prints
    groups: Prints | None = None

    def to_dict(self) -> dict[str, str] | None:
        """Plain data for the file of a model; None where they are too many for it."""
        if len(self.table) + len(self.test_file) > MOST_ROWS:
            return None
        kept = {
            "fingerprints": _text(self.table.astype("<u8")),
            "parts": _text(self.part.astype(np.uint8)),
            "test_file": _text(self.test_file.astype("<u8")),
        }
        return kept if self.groups is None else kept | {"groups": _text(self.groups.astype("<u8"))}

    @classmethod
    def from_dict(cls, kept: Any) -> FitRows | None:
        """Read what `to_dict` wrote; None for anything else."""
        try:
            table, part, test_file, groups = (
                np.frombuffer(base64.b64decode(text, validate=True), dtype)
                for text, dtype in (
                    (kept["fingerprints"], "<u8"),
                    (kept["parts"], "u1"),
                    (kept["test_file"], "<u8"),
                    (kept.get("groups", ""), "<u8"),
                )
            )
        except (TypeError, KeyError, AttributeError, ValueError, binascii.Error):
            return None
        if len(table) != len(part) or part.max(initial=0) > HELD_OUT:
            return None
        of_groups = groups.astype(np.uint64) if "groups" in kept else None
        return cls(table.astype(np.uint64), part, test_file.astype(np.uint64), of_groups)

    def counts(self) -> dict[str, int]:
        """How many rows the fit used, held out of its table, and had in a test file."""
        return {
            "fitted": int((self.part == FITTED).sum()),
            "held_out": int((self.part == HELD_OUT).sum()),
            "test_file": len(self.test_file),
        }

    def part_of(self, prints: Prints, groups: AnyArray | None = None) -> AnyArray:
        """Say of each row whether it is FITTED, HELD_OUT or NEW.

        Rows of the same table are known by their place, so that rows which are equal in every
        column stay what they were. In another table a row that equals one of the fit is FITTED,
        and so is one of a group that the fit has used.
        """
        if np.array_equal(prints, self.table):
            return self.part
        if len(prints) and np.array_equal(prints, self.test_file):
            return np.full(len(prints), HELD_OUT, dtype=np.uint8)
        held_out = np.concatenate([self.table[self.part == HELD_OUT], self.test_file])
        found = np.where(np.isin(prints, held_out), HELD_OUT, NEW)
        found[self.equals_fitted(prints)] = FITTED
        if groups is not None and self.groups is not None:
            found[in_groups(groups, self.groups)] = FITTED
        return found.astype(np.uint8)

    def in_fitted_groups(self, groups: AnyArray | None) -> int:
        """Count the rows whose group the fit has used; 0 where groups are not known."""
        if groups is None or self.groups is None:
            return 0
        return int(in_groups(groups, self.groups).sum())

    def equals_fitted(self, prints: Prints) -> AnyArray:
        """Say of each row whether it equals a row of the fit in every column of the model."""
        return np.isin(prints, self.table[self.part == FITTED])


@dataclass(frozen=True, eq=False)
class ChosenRows:
    """The rows of a table that a command takes.

    Parameters
    ----------
    index : int array of shape (n_chosen,)
        Their places in the table.
    kind : {"held-out", "new", "all", "fitted", "unknown"}
        What they are: rows that fit held out, rows that it has not seen, all rows with some of
        the fit among them, rows of the fit alone, or rows of which that is not known.
    said : str
        The same for people, as the middle of a sentence.
    part : uint8 array of shape (n_chosen,) or None
        FITTED, HELD_OUT or NEW, for each of them; None where that is not known.
    """

    index: AnyArray
    kind: str
    said: str
    part: AnyArray | None

    @property
    def n_fitted(self) -> int | None:
        """How many of them are rows of the fit; None where that is not known."""
        return None if self.part is None else int((self.part == FITTED).sum())

    def of_row(self, place: int) -> str:
        """Say what one of them is."""
        if self.part is None:
            return "whether fit has seen it is not known"
        return {
            FITTED: "a row of the fit",
            HELD_OUT: "a row that fit held out",
            NEW: "a row that fit has not seen",
        }[int(self.part[place])]

    @property
    def are_unseen(self) -> bool:
        """Whether it is known that fit has used none of them."""
        return self.n_fitted == 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": self.kind,
            "said": self.said,
            "n_rows": len(self.index),
            "n_fitted": self.n_fitted,
        }


def choose_rows(
    model: Any,
    frame: Any,
    kept: Any,
    asked: str,
    where: str,
    has_target: AnyArray | None = None,
    groups: AnyArray | None = None,
) -> ChosenRows:
    """Choose the rows of a table that a command is about.

    Parameters
    ----------
    model : Pipeline, KPPRegressor or KPPClassifier
        Fitted.
    frame : pandas.DataFrame
        The whole table.
    kept : object
        What the file of the model keeps about rows, from `FitRows.to_dict`; None where nothing.
    asked : {"auto", "held-out", "new", "all", "fitted"}
        Which are wanted; "auto" takes those that fit held out, or else those that it has not
        seen, or else all.
    where : str
        What the table is called.
    has_target : bool array of shape (n_rows,), optional
        Rows that can be taken; all by default.
    groups : object array of shape (n_rows,), optional
        Their groups. In another table than that of the fit, rows of a group that the fit has used
        count as rows of the fit.

    Returns
    -------
    chosen : ChosenRows
    """
    able = np.ones(len(frame), dtype=bool) if has_target is None else has_target
    every = np.flatnonzero(able)
    fit_rows = FitRows.from_dict(kept)
    if fit_rows is None:
        if asked in ("held-out", "new"):
            raise UserError(
                f"--rows {asked}: the file of the model does not say which rows its fit has used. "
                "Fit it again with kpp fit, or use --rows all."
            )
        said = (
            f"all {count(len(every), 'row')} of {where}; which of them the fit has seen is not "
            "known, as the file of the model does not say"
        )
        return ChosenRows(every, "unknown", said, None)
    prints = table_fingerprints(frame, model_columns(model))
    part = fit_rows.part_of(prints, groups)
    held_out = np.flatnonzero(able & (part == HELD_OUT))
    new = np.flatnonzero(able & (part != FITTED))
    fitted = np.flatnonzero(able & (part == FITTED))
    if asked == "held-out" or (asked == "auto" and len(held_out)):
        if not len(held_out):
            raise UserError(
                f"--rows held-out: {where} holds none of the rows that the fit held out. Use "
                "--rows new for rows that it has not seen, or --rows all."
            )
        said = f"the {count(len(held_out), 'row')} of {where} that fit held out"
        twins = int(fit_rows.equals_fitted(prints[held_out]).sum())
        if twins:
            said += f" ({twins:,} of them equal a row of the fit in every column)"
        return ChosenRows(held_out, "held-out", said, part[held_out])
    if asked == "fitted" and len(fitted):
        said = f"the {count(len(fitted), 'row')} of {where} that are rows of the fit"
        return ChosenRows(fitted, "fitted", said, part[fitted])
    if asked == "new" or (asked == "auto" and len(new)):
        if not len(new):
            raise UserError(
                f"--rows new: every row of {where} is a row of the fit. Use --rows all, or a table "
                "of rows that the fit has not seen."
            )
        said = f"the {count(len(new), 'row')} of {where} that fit has not seen"
        if len(fitted):
            said += f"; {count(len(fitted), 'row')} of the fit are left out (--rows all takes them)"
        return ChosenRows(new, "new", said, part[new])
    if not len(new):
        reason = "" if asked == "all" else "there are no held-out rows, and "
        said = (
            f"all {count(len(every), 'row')} of {where}, every one a row of the fit ({reason}no "
            "score here is one on new rows)"
        )
        return ChosenRows(every, "fitted", said, part[every])
    said = f"all {count(len(every), 'row')} of {where}, {len(fitted):,} of them rows of the fit"
    return ChosenRows(every, "all", said, part[every])


def _text(values: AnyArray) -> str:
    return base64.b64encode(values.tobytes()).decode()
