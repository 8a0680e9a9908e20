"""Rows with another number of cells than the header: refused, with their line."""

import gzip

import pandas as pd
import pytest

from kpp.tables.errors import UserError
from kpp.tables.reading import TableFile


@pytest.mark.parametrize(
    ("text", "line", "n_cells"),
    [
        ("a,b,c\n1,2,3\n4,5\n", 3, 2),
        ("a,b,c\n1,2,3\n\n4\n7,8,9\n", 4, 1),
        ('a,b,c\n1,"two\nlines",3\n4,5\n', 4, 2),
        ("a;b;c\r\n1,5;2;3\r\n4;5\r\n", 3, 2),
        ("\ufeffa\tb\tc\n1\t2\n", 2, 2),
        ("a,b,c\n1,2,3,4\n", 2, 4),
        ("a,b,c\n1,2,3\n1,2,3,4\n", 3, 4),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_an_uneven_row_is_refused_with_its_line(tmp_path, text, line, n_cells, packed):
    path = tmp_path / "x.csv"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with pytest.raises(UserError, match=rf"line {line} has {n_cells} cell\(s\), and the header 3"):
        TableFile(str(path)).read()


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n  \n"])
def test_gaps_at_the_end_of_rows_are_no_short_rows(tmp_path, end):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,\n2,NA\n,3" + end)
    assert TableFile(str(path)).read().isna().sum().tolist() == [1, 2]


def test_a_row_is_found_in_its_file(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('a,b\n1,"two\nlines"\n\n3,4\n')
    table = TableFile(str(path))
    assert len(table.read()) == 2
    assert table.place(1) == "line 5"
    path = tmp_path / "x.parquet"
    pd.DataFrame({"a": [1, 2]}).to_parquet(path)
    table = TableFile(str(path))
    table.read()
    assert table.place(1) == "row 1, counted from 0"
