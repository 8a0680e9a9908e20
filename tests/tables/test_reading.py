"""Files of every kind give the table that was written; what is none is refused in a sentence."""

import gzip
import io

import numpy as np
import pandas as pd
import pytest

from kpp.tables.builtin import BUILT_IN
from kpp.tables.errors import UserError
from kpp.tables.reading import TableFile, find_separator
from kpp.tables.writing import check_output

TABLE = pd.DataFrame(
    {
        "a": [1.5, np.nan, -3.0],
        "b b": ["x, y", 'quote " ; |', "line\nbreak\ttab"],
        "n": [1, 2, 3],
        "ä": ["é", "ü", "ß"],
    }
)


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return TableFile(str(path))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_text_of_any_separator_and_encoding(tmp_path, separator, encoding, packed):
    content = TABLE.to_csv(index=False, sep=separator).encode(encoding)
    table = written(tmp_path, "x.txt", gzip.compress(content) if packed else content)
    pd.testing.assert_frame_equal(table.read(), TABLE)


@pytest.mark.parametrize("write", ["to_parquet", "to_feather"])
@pytest.mark.parametrize("packed", [False, True])
def test_typed_files(tmp_path, write, packed):
    frame = TABLE.assign(
        d=pd.to_datetime(["2020-01-01", None, "2021-02-03"]), c=pd.Categorical(["u", "v", "u"])
    )
    buffer = io.BytesIO()
    getattr(frame, write)(buffer)
    content = buffer.getvalue()
    table = written(tmp_path, "misleading.csv", gzip.compress(content) if packed else content)
    pd.testing.assert_frame_equal(table.read(), frame)


def test_an_arrow_stream(tmp_path):
    import pyarrow as pa

    sink = io.BytesIO()
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert written(tmp_path, "s.arrow", sink.getvalue()).read()["a"].tolist() == [1, 2]


def test_an_index_with_a_name_is_a_column(tmp_path):
    TABLE.set_index("n").to_parquet(tmp_path / "x.parquet")
    TABLE.to_parquet(tmp_path / "y.parquet")
    assert "n" in TableFile(str(tmp_path / "x.parquet")).read().columns
    assert list(TableFile(str(tmp_path / "y.parquet")).read().columns) == list(TABLE.columns)


def test_decimal_commas(tmp_path):
    table = written(tmp_path, "x.csv", b"a;b;c\n1,5;x,y;1\n-2;z;2,25\n")
    frame = table.read()
    assert frame["a"].tolist() == [1.5, -2.0]
    assert frame["c"].tolist() == [1.0, 2.25]
    assert frame["b"].tolist() == ["x,y", "z"]
    gaps = written(tmp_path, "y.csv", b"a;b\n1,5;True\n2;\n3;False\n").read()
    assert gaps["a"].tolist() == [1.5, 2.0, 3.0]
    assert gaps["b"].dropna().tolist() == [True, False]
    # A column that a model reads as text stays as it is written.
    assert table.read(["a", "c"])["a"].tolist() == ["1,5", "-2"]


def test_columns_of_text_stay_text(tmp_path):
    frame = written(tmp_path, "x.csv", b"code,n\n1,1\n,2\n007,3\n").read(["code", "not there"])
    assert frame["code"].dropna().tolist() == ["1", "007"]
    assert frame["n"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n\n", "is empty"),
        (b"a,b\n", "has no rows"),
        (b"a,a,b\n1,2,3\n", "more than one 'a'"),
        (b"a,b\n1,2,3\n4,5,6\n", r"line 2 has 3 cell\(s\), and the header 2"),
        (b"a,b\n1,2\n4,5,6\n", "is not a regular table with the separator ','"),
        (bytes(range(256)), "binary data"),
        (b"PK\x03\x04 and so on", "Excel"),
        (b"PAR1 and nothing more", "damaged"),
        (b"ARROW1 and nothing more", "damaged"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-5], "cannot be read"),
        (gzip.compress(gzip.compress(b"a,b\n1,2\n", mtime=0), mtime=0), "gzip inside gzip"),
        (b"a,b\n" + b"1,2\n" * 40000 + b"\xff\xfe\xfd,3\n", "not in UTF-8"),
    ],
)
def test_what_is_no_table(tmp_path, content, message):
    with pytest.raises(UserError, match=message):
        written(tmp_path, "x.csv", content).read()


def test_names_that_are_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sales.csv").write_text("a\n1\n")
    with pytest.raises(UserError, match=r"no file salse.csv. Did you mean 'sales.csv'"):
        TableFile("salse.csv")
    with pytest.raises(UserError, match=r"Did you mean 'iris'"):
        TableFile("irsi")
    with pytest.raises(UserError, match="is a folder"):
        TableFile(str(tmp_path))


def test_a_built_in_name_wins_over_a_file_without_suffix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "iris").write_text("a\n1\n")
    (tmp_path / "iris.csv").write_text("a\n1\n")
    assert TableFile("iris").read().shape == (150, 5)
    assert TableFile("iris.csv").read().shape == (1, 1)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_targets(name):
    frame = TableFile(name).read()
    _, y = BUILT_IN[name](return_X_y=True)
    assert frame["target"].nunique() == len(np.unique(y))
    # Names of classes stand for the same rows as the numbers did.
    assert (pd.factorize(frame["target"])[0] == pd.factorize(y)[0]).all()


def test_separators_inside_quotes_do_not_count():
    assert find_separator('a,b\n"x;y;z;w",1\n"p;q;r;s",2\n') == ","
    assert find_separator("only\n1\n2\n") == ","


def test_inputs_are_not_written_over(tmp_path):
    table = written(tmp_path, "x.csv", b"a\n1\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "x.csv")
    for same in (tmp_path / "x.csv", tmp_path / "." / "x.csv", tmp_path / "link.csv"):
        with pytest.raises(UserError, match="is an input"):
            check_output(same, table)
    with pytest.raises(UserError, match="is a folder"):
        check_output(tmp_path, table)
    with pytest.raises(UserError, match="no folder"):
        check_output(tmp_path / "nowhere" / "y.csv", table)
    check_output(tmp_path / "y.csv", table, None)
