"""A category that stands for any other: neither among the listed ones nor missing."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from zoo import random_tree

import kpp
from kpp import KPPClassifier, KPPRegressor
from kpp.certificates import certify_raw
from kpp.explanations import explain_rules
from kpp.explanations._conditions import cells_of_path
from kpp.explanations._wording import Wording
from kpp.forest import Forest, Tree
from kpp.forest.coded import CodedRows
from kpp.forest.encoding import Encoding
from kpp.forest.join import as_float64, check_one_reading
from kpp.forest.others import AnyOther, other_of, with_other
from kpp.io.errors import FileFormatError
from kpp.io.forests import _with_others, encode_forest
from kpp.io.kinds import KnownKinds
from kpp.io.writer import Writer

NAMES = with_other(["a", "b", "c"], AnyOther.NAME)
CODES = with_other([1, 4], AnyOther.CODE)


def stump(known, left, *, missing_left, dtype=np.float64, **attributes):
    """One split of column 0 into categories, by their places; column 1 is a number."""
    tree = Tree(
        [1, -1, -1],
        [2, -1, -1],
        [0] * 3,
        [0] * 3,
        missing_left=[missing_left] * 3,
        left_categories={0: left},
    )
    return Forest.from_trees([tree], n_features=2, dtype=dtype, categories={0: known}, **attributes)


def goes_left(forest, values):
    rows = np.empty((len(values), 2), dtype=object)
    rows[:, 0], rows[:, 1] = values, 0.0
    return (forest.apply(rows)[:, 0] == 1).tolist()


def random_categorical_forest(seed, known, n_features=2):
    """Trees of random shape; splits on column 0 send random sets left, missing values anywhere."""
    rng = np.random.default_rng(seed)
    trees = []
    for _ in range(4):
        tree = random_tree(rng, 8, n_features)
        splits = [v for v in range(len(tree.left)) if tree.left[v] >= 0 and tree.feature[v] == 0]
        inside = {v: np.flatnonzero(rng.random(len(known)) < 0.5) for v in splits}
        trees.append(replace(tree, left_categories=inside))
    return Forest.from_trees(trees, n_features=n_features, categories={0: known})


def obvious_leaves(forest, rows, code):
    """Leaves of rows whose category has the place `code` says; NaN for a missing one."""
    found = []
    for value, number in rows:
        place, leaves = code(value), []
        for root in forest.roots:
            v = int(root)
            while forest.left[v] >= 0:
                if forest.feature[v] == 1:
                    left = number <= forest.threshold[v]
                elif np.isnan(place):
                    left = forest.missing_left[v]
                else:
                    word = forest.category_bits[forest.category_offsets[v]]
                    left = bool(word >> np.uint32(place) & 1)
                v = int(forest.left[v] if left else forest.right[v])
            leaves.append(v)
        found.append(leaves)
    return np.array(found)


def test_unknown_and_missing_go_their_own_ways():
    forest = stump(NAMES, [0, 3], missing_left=False)
    values = ["a", "b", "c", "violet", "", None, np.nan]
    expected = [True, False, False, True, True, False, False]
    assert goes_left(forest, values) == expected
    frame = pd.DataFrame({"kind": pd.Series(values, dtype=object), "x": 0.0})
    for given in (frame, frame.astype({"kind": "category"})):
        assert (forest.apply(given)[:, 0] == 1).tolist() == expected
        # As the rows of a fit are read, with codes of their own.
        assert (forest.apply(CodedRows.read(given))[:, 0] == 1).tolist() == expected


def test_without_it_an_unknown_category_is_missing():
    forest = stump(NAMES[:-1], [0], missing_left=False)
    assert goes_left(forest, ["a", "b", "violet", None]) == [True, False, False, False]


def test_codes():
    forest = stump(CODES, [0, 2], missing_left=False)
    codes = [1.0, 4.0, 0.0, 7.0, -3.0, 2.0**30, np.inf, -np.inf, np.nan]
    expected = [True, False, True, True, True, True, True, True, False]
    rows = np.column_stack([codes, np.zeros(len(codes))])
    assert (forest.apply(rows)[:, 0] == 1).tolist() == expected
    assert goes_left(forest, [1, 4, True, None]) == [True, False, True, False]
    assert (forest.apply(rows.astype(np.float32))[:, 0] == 1).tolist() == expected
    # A table that has another column of texts, as a fit reads it.
    coded = CodedRows(rows, {})
    assert (forest.apply(coded)[:, 0] == 1).tolist() == expected
    with pytest.raises(ValueError, match="column 0 by their codes"):
        forest.apply(CodedRows(np.array([[0.5, 0.0]]), {}))


def test_a_declared_type_gives_its_own_codes():
    forest = stump(CODES, [0], missing_left=True)
    kinds = pd.Categorical(["u", "v", None, "w"], categories=["w", "v", "u", "-", "+"])
    frame = pd.DataFrame({"kind": kinds, "x": 0.0})  # codes 2, 1, missing, 0
    assert (forest.apply(frame)[:, 0] == 1).tolist() == [False, True, True, False]
    # Numbers as categories are no codes: here 1 and 4 have the codes 0 and 1.
    frame["kind"] = pd.Categorical([1, 4, None, 1])
    assert (forest.apply(frame)[:, 0] == 1).tolist() == [False, True, True, False]


def test_what_is_neither_a_name_nor_a_code_is_refused():
    by_code = stump(CODES, [0], missing_left=True)
    for value in ("a", 3.5, 1 - 1e-9, -0.5):
        with pytest.raises(ValueError, match="by their codes"):
            goes_left(by_code, [value])
    texts = pd.DataFrame({"kind": ["a", "b"], "x": [0.0, 1.0]})
    with pytest.raises(ValueError, match=r"column 'kind' by their codes"):
        by_code.apply(texts)
    # The codes of a table are its own: names that happen to be numbers are no codes either.
    for table in (texts, texts.assign(kind=pd.Categorical([1, 4]))):
        with pytest.raises(ValueError, match=r"column 'kind' by their codes"):
            by_code.apply(CodedRows.read(table))
    by_name = stump(NAMES, [0], missing_left=True)
    with pytest.raises(ValueError, match=r"knows its categories as 'a'"):
        by_name.apply(np.zeros((2, 2)))
    numbers = stump(with_other([10, 20], AnyOther.NAME), [0], missing_left=False)
    assert goes_left(numbers, [10, 20.0, 30, None]) == [True, False, False, False]
    with pytest.raises(ValueError, match=r"knows its categories as 10"):
        goes_left(numbers, ["10"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_code_that_counts_as_missing(dtype):
    # -1 is no listed code, and 4 is one: both are missing here.
    for value in (-1.0, 4.0):
        forest = stump(CODES, [0, 1], missing_left=False, dtype=dtype)
        forest = replace(forest, missing_values={0: (value, value), 1: (value, value)})
        rows = np.array([[1.0, 0], [4.0, 0], [-1.0, 0], [9.0, 0], [np.nan, 0]])
        expected = [True, value != 4, False, False, False]
        for one in (forest, as_float64(forest)):
            assert (one.apply(rows)[:, 0] == 1).tolist() == expected
    # In the precision of the forest, which rounds what stands for nothing.
    tenth = float(np.float32(0.1))
    forest = stump(CODES, [0], missing_left=True, dtype=np.float32)
    forest = replace(forest, missing_values={0: (tenth, tenth)})
    assert goes_left(forest, [0.1, 1, 4]) == [True, True, False]
    # The place of a code among the listed ones is not its number.
    forest = replace(stump(CODES, [0], missing_left=False), missing_values={0: (0.0, 0.0)})
    assert goes_left(forest, [1, 0]) == [True, False]


@pytest.mark.parametrize("known", [NAMES, CODES, with_other([], AnyOther.CODE)])
def test_saved_loaded_and_pickled(tmp_path, known):
    forest = stump(known, [len(known) - 1], missing_left=False)
    kpp.save(forest, tmp_path / "forest.kpp")
    for again in (kpp.load(tmp_path / "forest.kpp"), pickle.loads(pickle.dumps(forest))):
        assert again.categories[0].tolist() == known.tolist()
        assert other_of(again.categories[0]) is other_of(known)
        unknown = "violet" if known is NAMES else 9
        assert goes_left(again, [unknown, None]) == [True, False]


def test_many_codes_are_saved(tmp_path):
    forest = stump(with_other(range(40_000), AnyOther.CODE), [39_999], missing_left=False)
    kpp.save(forest, tmp_path / "forest.kpp")
    loaded = kpp.load(tmp_path / "forest.kpp")
    assert goes_left(loaded, [39_999, 39_998, 40_000]) == [True, False, False]


def test_other_forests_are_saved_as_before():
    for known, kept in ((NAMES, True), (NAMES[:-1], False)):
        fields = encode_forest(stump(known, [0], missing_left=True), Writer(KnownKinds()), "")
        assert ("other_categories" in fields) == kept


@pytest.mark.parametrize(
    "others", [[0], {1: "name"}, {0: "something"}, {0: ["name"]}, {"0": "name"}]
)
def test_files_that_say_otherwise_are_refused(others):
    with pytest.raises(FileFormatError):
        _with_others({0: np.array(["a"])}, others)


def test_it_stands_last():
    for known in ([AnyOther.NAME, "a"], [AnyOther.NAME, AnyOther.NAME]):
        with pytest.raises(ValueError, match="last"):
            stump(np.array(known, dtype=object), [0], missing_left=True)


@pytest.mark.parametrize("seed", range(10))
def test_joined_forests_keep_their_ways(seed):
    a = random_categorical_forest(seed, NAMES)
    b = random_categorical_forest(seed + 100, np.array(["c", "d"], dtype=object))
    c = random_categorical_forest(seed + 200, with_other(["e"], AnyOther.NAME))
    joined = Forest.concatenate([b, a, c])
    assert other_of(joined.categories[0]) is AnyOther.NAME
    values = ["a", "b", "c", "d", "e", "violet", None]
    rows = np.array([[v, x] for v in values for x in (-2.0, 0.1, 2.0)], dtype=object)
    leaves = [
        obvious_leaves(b, rows, lambda v: {"c": 0, "d": 1}.get(v, np.nan)),
        obvious_leaves(a, rows, lambda v: "abc".find(v) % 4 if v else np.nan),
        obvious_leaves(c, rows, lambda v: int(v != "e") if v else np.nan),
    ]
    first = np.cumsum([0, b.n_nodes, a.n_nodes])
    expected = np.column_stack([own + n for own, n in zip(leaves, first, strict=True)])
    np.testing.assert_array_equal(joined.apply(rows), expected)


def test_names_and_codes_are_not_joined():
    by_name, by_code = stump(NAMES, [0], missing_left=True), stump(CODES, [0], missing_left=True)
    with pytest.raises(ValueError, match="alike"):
        Forest.concatenate([by_name, by_code])
    with pytest.raises(TypeError, match="codes in another"):
        check_one_reading([by_name, by_code])
    # Numbers as categories are the same numbers.
    plain = stump(np.array([0, 1]), [0], missing_left=True)
    joined = Forest.concatenate([plain, by_code])
    assert joined.categories[0].tolist() == [0, 1, 4, AnyOther.CODE]
    check_one_reading([plain, by_code])


@pytest.mark.parametrize("ranks", [False, True])
def test_trees_of_codes_become_trees_of_names(ranks):
    known = np.array(["u", "v", "w", "z"], dtype=object)
    number = np.array([2.0, 0.0, 3.0, 1.0]) if ranks else np.arange(4.0)
    tables = {0: np.append(number, np.nan)} if ranks else {}
    encoding = Encoding({0: known}, tables)
    grown = stump(with_other([1, 3], AnyOther.CODE), [1, 2], missing_left=False)
    values = ["u", "v", "w", "z", "new", None]
    rows = CodedRows.read(pd.DataFrame({"kind": values, "x": 0.0}))
    translated = encoding.translated(grown)
    assert translated.categories[0].tolist() == known.tolist()
    expected = grown.apply(encoding.apply(rows))
    np.testing.assert_array_equal(translated.apply(rows), expected)
    # Codes 3, 0 and 2 go left; what the encoding does not know is missing.
    inside = [value not in (known[number == 1][0], "new", None) for value in values]
    assert (expected[:, 0] == 1).tolist() == inside


def test_a_missing_category_with_a_number_of_its_own_is_translated():
    encoding = Encoding({0: np.array(["u", "v"], dtype=object)}, {0: np.array([0.0, 1.0, 2.0])})
    for left, expected in (([2], True), ([0, 1], False)):
        grown = stump(with_other([0, 1], AnyOther.CODE), left, missing_left=not expected)
        rows = CodedRows.read(pd.DataFrame({"kind": ["u", None, "v"], "x": 0.0}))
        leaf = encoding.translated(grown).apply(rows)
        np.testing.assert_array_equal(leaf, grown.apply(encoding.apply(rows)))
        assert (leaf[1, 0] == 1) == expected


def fixed_model(seed, known, values):
    rng = np.random.default_rng(seed)
    rows = np.empty((200, 2), dtype=object)
    rows[:, 0], rows[:, 1] = rng.choice(np.array(values, dtype=object), 200), rng.normal(size=200)
    kind = dict(zip(values, 2.0 * rng.permutation(len(values)), strict=True))
    y = np.array([kind[value] for value in rows[:, 0]]) + rows[:, 1].astype(float)
    forest = random_categorical_forest(seed, known)
    model = KPPClassifier(forest, regime="fixed", alpha=1e-2, node_weight="uniform")
    return model.fit(rows, y > np.median(y)), rows


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("known", [NAMES, CODES], ids=["names", "codes"])
def test_certificates(seed, known):
    values = ["a", "b", "c", "violet", None] if known is NAMES else [1, 4, 0, 9, np.nan]
    model, rows = fixed_model(seed, known, values)
    rows = rows[:30] if known is NAMES else rows[:30].astype(float)
    freed = certify_raw(model, rows, free_categories=[0])
    kept = certify_raw(model, rows)
    assert (freed.radius <= kept.radius).all()
    rng = np.random.default_rng(seed)
    for i in range(30):
        for certificate, allowed in ((kept, rows[i, :1]), (freed, values)):
            radius = min(float(certificate.radius[i]), 10.0)
            near = np.array(
                [
                    [value, float(rows[i, 1]) + radius * rng.uniform(-1, 1) * 0.999]
                    for value in (allowed if radius > 0 else rows[i, :1])
                    for _ in range(8)
                ],
                dtype=rows.dtype,
            )
            assert (model.predict(near) == model.predict(rows[i : i + 1])).all()
        if kept.found[i]:
            # A row keeps its category, also one that nobody lists.
            changed = kept.counterexample[i : i + 1]
            given = rows[i, 0]
            assert changed[0, 0] == given or given is None or given != given
            assert model.predict(changed) != model.predict(rows[i : i + 1])
    assert (freed.radius < kept.radius).any()


def test_words():
    forest = stump(NAMES, [0, 3], missing_left=False)
    wording = Wording([forest], ("kind", "x"), ["violet", 0.0], other=True)
    cells = [cells_of_path(forest, leaf, wording.categories)[0][1] for leaf in (1, 2)]
    assert [wording.cell(cell) for cell in cells] == [
        "kind in {a, any other}",
        "kind in {b, c}",
    ]
    missing = Wording([forest], ("kind", "x"), [None, 0.0], other=True)
    assert missing.cell(cells[1]) == "kind in {b, c} or missing"
    # Codes and names, in order, and it stands last.
    known = with_other([7, 2], AnyOther.CODE)
    forest = stump(known, [0, 2], missing_left=False)
    wording = Wording([forest], ("kind", "x"))
    assert wording.categories[0] == [2, 7, AnyOther.CODE]
    assert wording.cell(cells_of_path(forest, 1, wording.categories)[0][1]) == "kind is not 2"
    mixed = stump(with_other(["t", 2], AnyOther.NAME), [0], missing_left=False)
    assert Wording([mixed], ("kind", "x")).categories[0][-1] is AnyOther.NAME


def test_words_for_forests_that_know_different_categories():
    # "d" is any other to the first forest, and missing, as any other is, to the second.
    first = stump(NAMES, [0, 3], missing_left=False)
    second = stump(np.array(["a", "d"], dtype=object), [0], missing_left=True)
    wording = Wording([first, second], ("kind", "x"), ["violet", 0.0])
    cell = [cells_of_path(f, 1, wording.categories)[0][1][0].categories for f in (first, second)]
    assert cell == [{"a", "d", AnyOther.NAME}, {"a", "b", "c", AnyOther.NAME}]


@pytest.mark.parametrize("seed", range(3))
def test_rules_hold_for_the_row(seed):
    values = ["a", "b", "c", "violet", None]
    model, _ = fixed_model(seed, NAMES, values)
    for kind in values:
        row = np.array([[kind, 0.3]], dtype=object)
        explanation = explain_rules(model, row, top=1000)
        total = explanation.baseline + sum(rule.contribution for rule in explanation.rules)
        assert total == pytest.approx(explanation.score, abs=1e-12)
        for rule in explanation.rules:
            for condition in rule.conditions:
                if condition.categories is None:
                    continue
                known = condition.categories
                inside = kind in known if kind in ("a", "b", "c") else AnyOther.NAME in known
                assert condition.missing if kind is None else inside
    texts = [rule.text for rule in explain_rules(model, row, top=1000).rules]
    assert any("any other" in text for text in texts)


def test_a_model_on_such_a_forest_is_saved(tmp_path):
    forest = random_categorical_forest(0, NAMES)
    rows = np.array([[v, x] for v in ["a", "b", "new", None] for x in (-1.0, 0.5)], dtype=object)
    model = KPPRegressor(forest, regime="fixed", alpha=0.1, node_weight="uniform")
    model.fit(rows, np.arange(8.0))
    kpp.save(model, tmp_path / "model.kpp")
    np.testing.assert_array_equal(
        kpp.load(tmp_path / "model.kpp").predict(rows), model.predict(rows)
    )
