"""Rows of a file, for a model that is already fitted."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kpp.models.asking import ask
from kpp.models.linear import KPPLinearModel
from kpp.scores import RoutedRows
from kpp.tables.columns import columns_of, prepare, take_id, text_columns
from kpp.tables.errors import listed
from kpp.tables.fit_rows import ChosenRows, choose_rows
from kpp.tables.listener import Listener
from kpp.tables.reading import TableFile


class Rows:
    """Rows of a file, as a model takes them.

    Parameters
    ----------
    model : Pipeline, KPPRegressor or KPPClassifier
        Fitted.
    table : TableFile
        The file.
    id_column : str or None
        Column that names the rows.
    listener : Listener
        Where remarks go.
    known : collection of str, optional
        Columns that the fit had another use for, as its target and weights: that the file still
        has them needs no remark.
    rows : {"auto", "held-out", "new", "all"}, optional
        Which rows to take, see `choose_rows`; all by default.
    fit_rows : object
        What the file of the model keeps about the rows of its fit.
    independent_duplicates : bool
        Whether that fit was told that equal rows are independent draws.

    Attributes
    ----------
    question : Question
        The model, and its preparation.
    raw, prepared : data frames
        Rows as they are in the file, and as the model behind the preparation takes them.
    ids : pandas.Series
        Names of the rows, or their numbers in the file.
    chosen : ChosenRows or None
        Which of the rows of the file they are, where that was asked.
    """

    def __init__(
        self,
        model: Any,
        table: TableFile,
        id_column: str | None,
        listener: Listener,
        *,
        known: Collection[str] = (),
        rows: str | None = None,
        fit_rows: Any = None,
        independent_duplicates: bool = False,
    ) -> None:
        self.independent_duplicates = independent_duplicates
        self.name = table.name
        self.question = ask(model)
        self._routed: dict[tuple[Any, Any], RoutedRows] = {}
        with listener.working(f"reading {table.name}"):
            frame = table.read(text_columns(model))
        self.ids = take_id(frame, id_column, table.name)
        raw, extra = columns_of(model, frame, table.name)
        ignored = [name for name in extra if name != id_column and name not in known]
        if ignored:
            listener.note(
                f"Columns that the model does not know, and that do not count: {listed(ignored)}."
            )
        self.chosen: ChosenRows | None = None
        if rows is not None:
            self.chosen = choose_rows(model, frame, fit_rows, rows, table.short)
            raw, self.ids = raw.iloc[self.chosen.index], self.ids.iloc[self.chosen.index]
        self.raw, self.ids = raw.reset_index(drop=True), self.ids.reset_index(drop=True)
        with listener.working("preparing columns"):
            self.prepared, remarks = prepare(model, self.raw)
        for remark in remarks:
            listener.warn(remark)

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def model(self) -> KPPLinearModel:
        """The model behind the preparation."""
        return self.question.model

    def at(self, which: slice = slice(None)) -> RoutedRows:
        """All rows or some of them, routed: for every question about them."""
        key = which.start, which.stop
        if key not in self._routed:
            self._routed[key] = self.model.at(self.prepared.iloc[which])
        return self._routed[key]
