"""The linear layers of a model, in a file.

A layer is kept as what its fit found: duals, intercept, alpha. Its embedding is a part of the
model's own: some blocks, or a group of trees of each; its rows are all rows of the map, or the
training rows of a fold. So neither embeddings nor row numbers are stored again, and node
coefficients follow from the duals. A layer on other trees (folds that grew forests of their own)
has no place in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NoReturn, cast

import numpy as np

from kpp._checks import RefusedError
from kpp._typing import AnyArray, FloatArray
from kpp.geometry.composed import BlockMap, named_blocks
from kpp.geometry.linear import LinearMap
from kpp.geometry.maps import MapBlock, PathMap
from kpp.geometry.weights import PathWeights
from kpp.io.additive import ROUNDING
from kpp.io.errors import CannotSaveError
from kpp.io.fields import floats, require, whole
from kpp.io.forests import node_and_edge, weights_fields
from kpp.io.schema import Field, FieldTable, required
from kpp.io.values import Fields
from kpp.models.fits import Center, LinearFit, MapPart
from kpp.models.linear import KPPLinearModel
from kpp.models.penalties import alpha_of
from kpp.models.regimes import REGIMES

ALL_ROWS, FOLD_ROWS = "all", "folds"
OWN_WEIGHTS = required("node", "edge", "tree_mass", "forest_mass")
FITS: FieldTable = {
    **required("blocks", "tree_counts", "rows", "dual", "intercept", "alpha", "share", "n_iter"),
    "weights": Field(inside=OWN_WEIGHTS),
}
CENTER = required("node_coef", "intercept")


class LostFits(Sequence[LinearFit]):
    """Stands for the linear layers of a model whose file does not hold them.

    Files of format 1 have neither the intercepts of the layers of a cross-fit nor what the
    penalty of a centred one shrinks to. Such a model predicts, explains and certifies; whoever
    asks for its layers is told what to do.
    """

    def _refuse(self) -> NoReturn:
        raise RefusedError(
            "This model was saved by an older version of kpp, in a file that does not hold its "
            "linear layers: fit it again, and save it anew."
        )

    def __len__(self) -> int:
        self._refuse()

    def __getitem__(self, index: Any) -> Any:
        self._refuse()

    def __repr__(self) -> str:
        return "LostFits()"


# Encoding.


def fits_fields(fits: Sequence[LinearFit], model: KPPLinearModel, where: str) -> Fields | None:
    """Take linear layers apart.

    Returns
    -------
    fields : dict or None
        None for layers on other trees than the model's, and for those that are lost.
    """
    if isinstance(fits, LostFits):
        return None
    blocks = _block_numbers(fits, model)
    if blocks is None:
        return None
    dual: Any = np.concatenate([fit.dual for fit in fits])
    own_dual = model.dual_coef_
    if len(fits) == 1 and own_dual is not None and np.array_equal(dual, own_dual):
        dual = _order(fits[0].dual)  # the model's own, which are stored
    plain = all(isinstance(fit.share, float) and fit.share == 1.0 for fit in fits)
    tree_counts, weights = _groups(fits, where)
    return {
        "blocks": blocks,
        "tree_counts": tree_counts,
        "weights": weights,
        "rows": _kind_of_rows(fits, model, where),
        "dual": dual,
        "intercept": np.array([fit.intercept for fit in fits]),
        "alpha": np.array([fit.alpha for fit in fits], dtype=np.float64),
        "share": None if plain else np.array([fit.share for fit in fits], dtype=np.float64),
        "n_iter": [int(fit.n_iter) for fit in fits],
    }


def center_fields(model: KPPLinearModel, where: str) -> Fields | None:
    """Take what the penalty shrinks to apart: one for all layers of a model."""
    if isinstance(model.fits_, LostFits):
        return None
    fits = [*model.fits_, *(model.fold_fits_ or [])]
    center = fits[0].center
    if any(fit.center is not center for fit in fits):
        raise CannotSaveError(f"Cannot save {where}: its layers shrink to different models.")
    if center is None:
        return None
    return {"node_coef": center.node_coef, "intercept": center.intercept}


def _block_numbers(fits: Sequence[LinearFit], model: KPPLinearModel) -> list[Any] | None:
    """Names and numbers of the model's blocks that each layer has; all by default.

    None where a layer has others.
    """
    # By identity: a layer's block is the model's own object, or it is on other trees.
    number = {id(block): k for k, (_, block) in enumerate(named_blocks(model.map_))}
    found: list[Any] = []
    for fit in fits:
        embedding = fit.part.whole
        if embedding is model.map_:
            found.append(None)
            continue
        own = named_blocks(embedding)
        if any(id(block) not in number for _, block in own):
            return None
        names = [name for name, _ in own] if isinstance(embedding, BlockMap) else None
        found.append((names, [number[id(block)] for _, block in own]))
    return found


def _kind_of_rows(fits: Sequence[LinearFit], model: KPPLinearModel, where: str) -> str:
    if all(fit.part.rows is None for fit in fits):
        return ALL_ROWS
    folds = model.folds_ or []
    # In a blend every fold has a layer for each block.
    per_fold = len(fits) // max(1, len(folds))
    same = len(folds) * per_fold == len(fits) and all(
        np.array_equal(fit.rows, folds[k // per_fold][0]) for k, fit in enumerate(fits)
    )
    if not same:
        raise CannotSaveError(
            f"Cannot save {where}: its linear layers are on other rows than those of its folds."
        )
    return FOLD_ROWS


def _groups(fits: Sequence[LinearFit], where: str) -> tuple[Any, Any]:
    """Numbers of trees of each layer, and own weights, block by block; None for all trees.

    The groups of a fold-grown forest follow one another, so that their weights, side by side, are
    weights of the whole forest.
    """
    parts = [fit.part for fit in fits]
    if all(part.trees is None for part in parts):
        return None, None
    counts: list[Any] = []
    weights: list[Any] = []
    for b, (_, block) in enumerate(named_blocks(parts[0].whole)):
        if not isinstance(block, PathMap):
            # Linear terms have no trees: all of them are in every layer.
            counts.append(None)
            weights.append(None)
            continue
        slices = [None if part.trees is None else part.trees[b] for part in parts]
        if all(trees == slice(0, block.forest.n_trees) for trees in slices):
            # Trees that no label has grown are those of every layer.
            counts.append(None)
            weights.append(None)
            continue
        stops = [0, *(0 if trees is None else trees.stop for trees in slices)]
        in_order = [slice(*pair) for pair in pairwise(stops)]
        if slices != in_order or stops[-1] != block.forest.n_trees:
            raise CannotSaveError(
                f"Cannot save {where}: its linear layers are on other trees than groups that "
                "follow one another."
            )
        counts.append(np.diff(stops).tolist())
        own = [part.weights[b] for part in parts if part.weights is not None]
        known = [group for group in own if group is not None]
        weights.append(_joined_weights(block, known) if len(known) == len(parts) else None)
    return counts, weights


def _joined_weights(block: PathMap, groups: list[PathWeights]) -> dict[str, Any]:
    node, edge, mass = (
        np.concatenate([getattr(group, name) for group in groups])
        for name in ("node", "edge", "tree_mass")
    )
    joined = PathWeights(node, edge, mass, float(mass.sum()))
    forest_mass = np.array([group.forest_mass for group in groups], dtype=np.float64)
    return weights_fields(block.forest, joined) | {"forest_mass": forest_mass}


def _order(array: AnyArray) -> Literal["C", "F"]:
    """Memory order; it is kept, since sums may be rounded differently in another."""
    return "C" if array.flags.c_contiguous else "F"


# Decoding.


def decode_center(fields: Any, shape: tuple[int, int]) -> Center | None:
    """Put what the penalty shrinks to together."""
    if fields is None:
        return None
    require(isinstance(fields, dict), "a center must be by name")
    return Center(
        floats(fields["node_coef"], "coefficients of the center", shape),
        floats(fields["intercept"], "intercept of the center", shape[:1]),
    )


def decode_fits(fields: Any, model: KPPLinearModel, center: Center | None) -> list[LinearFit]:
    """Put linear layers together.

    Parameters
    ----------
    fields : dict
        From `fits_fields`.
    model : KPPLinearModel
        With its map, rows and folds.
    center : Center, optional
        What the penalty of all layers shrinks to.
    """
    require(isinstance(fields, dict), "linear layers must be by name")
    n_scores = len(np.atleast_1d(model.intercept_))
    alpha = fields["alpha"]
    n_fits = len(alpha) if isinstance(alpha, np.ndarray) and alpha.ndim == 1 else 0
    require(n_fits > 0, "linear layers have alphas")
    require(floats(alpha, "alphas of layers", (n_fits,)).min() > 0, "alpha must be positive")
    shape = (n_fits, n_scores)
    intercept = floats(fields["intercept"], "intercepts of layers", shape)
    share = fields["share"]
    if share is not None:
        floats(share, "shares of layers", shape, low=0.0)
    n_iter = fields["n_iter"]
    require(isinstance(n_iter, list) and len(n_iter) == n_fits, "products of layers")
    parts = _parts(fields, model, n_fits)
    n_rows = [len(model.fit_rows_) if part.rows is None else len(part.rows) for part in parts]
    dual = fields["dual"]
    if isinstance(dual, str):
        require(dual in ("C", "F") and n_fits == 1, "duals of the only layer")
        dual = np.asarray(model.dual_coef_, order="F" if dual == "F" else "C")
    floats(dual, "duals of layers", (sum(n_rows), n_scores))
    order = _order(dual)
    duals = [np.asarray(own, order=order) for own in np.split(dual, np.cumsum(n_rows)[:-1])]
    return [
        LinearFit(
            part=parts[q],
            rows=model.fit_rows_ if parts[q].rows is None else model.fit_rows_[parts[q].rows],
            dual=duals[q],
            intercept=intercept[q],
            alpha=float(alpha[q]),
            center=center,
            share=1.0 if share is None else share[q],
            n_iter=whole(n_iter[q], "products of layers", 0, 2**62),
        )
        for q in range(n_fits)
    ]


def _parts(fields: Fields, model: KPPLinearModel, n_fits: int) -> list[MapPart]:
    blocks, rows = fields["blocks"], fields["rows"]
    require(isinstance(blocks, list) and len(blocks) == n_fits, "every layer needs its blocks")
    require(rows in (ALL_ROWS, FOLD_ROWS), "layers are on all rows, or on those of folds")
    wholes = [model.map_ if own is None else _some_blocks(own, model.map_) for own in blocks]
    trees, weights = _tree_groups(fields, model.map_, n_fits)
    require(trees is None or not any(blocks), "groups of trees are those of all blocks")
    rows_of: list[AnyArray | None] = [None] * n_fits
    if rows == FOLD_ROWS:
        n_folds = len(model.folds_ or [])
        require(n_folds > 0 and n_fits % n_folds == 0, "a layer for each fold")
        assert model.folds_ is not None
        # Folds are in numbers of the user's rows, parts of a map in places among the rows of the
        # fit.
        order = np.argsort(model.fit_rows_)
        known = model.fit_rows_[order]
        in_folds = [order[np.searchsorted(known, train)] for train, _ in model.folds_]
        rows_of = [in_folds[k // (n_fits // n_folds)] for k in range(n_fits)]
        require(all(len(r) for r in rows_of if r is not None), "a layer has rows")
    return [
        MapPart(
            wholes[q],
            rows_of[q],
            None if trees is None else trees[q],
            None if weights is None else weights[q],
        )
        for q in range(n_fits)
    ]


def _some_blocks(own: Any, embedding: MapBlock) -> MapBlock:
    """Some blocks of a map, under the names that they have in a layer."""
    known = [block for _, block in named_blocks(embedding)]
    require(isinstance(own, tuple) and len(own) == 2, "blocks must be names and numbers")
    names, numbers = own
    require(isinstance(numbers, list) and numbers, "a layer needs blocks")
    blocks = [known[whole(k, "a block", 0, len(known) - 1)] for k in numbers]
    if names is None:
        require(len(blocks) == 1, "several blocks need names")
        return blocks[0]
    right = isinstance(names, list) and len(names) == len(blocks)
    require(right and all(isinstance(name, str) for name in names), "every block needs a name")
    return BlockMap(list(zip(names, blocks, strict=True)))


def _tree_groups(fields: Fields, embedding: MapBlock, n_fits: int) -> tuple[Any, Any]:
    """Trees and own weights of the blocks of each layer."""
    counts, stored = fields["tree_counts"], fields["weights"]
    if counts is None:
        require(stored is None, "weights of groups without groups")
        return None, None
    blocks = [block for _, block in named_blocks(embedding)]
    for values in (counts, stored):
        right = isinstance(values, list) and len(values) == len(blocks)
        require(right, "every block needs its groups of trees")
    trees: list[list[slice | None]] = [[] for _ in range(n_fits)]
    weights: list[list[PathWeights | None]] = [[] for _ in range(n_fits)]
    for block, numbers, own in zip(blocks, counts, stored, strict=True):
        require(numbers is None or isinstance(block, PathMap), "groups of trees without trees")
        n_trees = block.forest.n_trees if isinstance(block, PathMap) else 0
        if numbers is None:
            require(own is None, "weights of groups without groups")
            for q in range(n_fits):
                trees[q].append(slice(0, n_trees) if isinstance(block, PathMap) else None)
                weights[q].append(None)
            continue
        require(isinstance(numbers, list) and len(numbers) == n_fits, "a group for each layer")
        # Groups follow one another: their sizes say where each begins.
        stops = np.cumsum([0, *(whole(n, "trees of a group", 1, n_trees) for n in numbers)])
        require(stops[-1] == n_trees, "the groups must hold all trees")
        groups = [slice(*pair) for pair in pairwise(stops.tolist())]
        for q, group in enumerate(_weights_of_groups(block, groups, own)):
            trees[q].append(groups[q])
            weights[q].append(group)
    return [tuple(own) for own in trees], [tuple(own) for own in weights]


def _weights_of_groups(
    block: PathMap, groups: list[slice], own: Any
) -> list[PathWeights] | list[None]:
    """Own weights of the groups of a forest; their coordinates must be finite."""
    forest, edge, mass = block.forest, block.weights.edge, block.weights.tree_mass
    if own is None:
        # As `PathMap.trees` does it: a group without mass embeds every row as 0.
        forest_mass = np.array([mass[group].sum() or 1.0 for group in groups])
    else:
        node, edge = node_and_edge(forest, own)
        mass = floats(own["tree_mass"], "tree masses", (forest.n_trees,), low=0.0)
        forest_mass = floats(own["forest_mass"], "masses of groups", (len(groups),), low=0.0)
        require((forest_mass > 0).all(), "S_T must be positive")
    # The largest coordinate of each tree is enough to see that all of them are finite.
    largest = np.maximum.reduceat(edge, forest.roots)
    with np.errstate(over="ignore"):
        if block.normalize == "forest":
            largest = np.maximum.reduceat(largest, [group.start for group in groups]) / forest_mass
        else:
            largest = np.divide(largest, mass, out=np.zeros_like(mass), where=mass > 0)
    require(np.isfinite(largest).all(), "the coordinates must be finite")
    if own is None:
        return [None] * len(groups)
    nodes = [forest.nodes_of(group) for group in groups]
    return [
        PathWeights(node[n], edge[n], mass[group], float(total))
        for n, group, total in zip(nodes, groups, forest_mass, strict=True)
    ]


def add_up(fits: Sequence[LinearFit], model: KPPLinearModel) -> bool:
    r"""Whether the shares of linear layers add up to the model, up to rounding.

    .. math:: w = w_0 + \sum_q c_q \Phi_q^\top r_q, \qquad b = \sum_q c_q b_q

    In a blend the coefficients of its bare ensembles come on top; its intercept is free.
    """
    coefficients = np.atleast_2d(model.node_coef_)
    blocks = named_blocks(model.map_)
    starts = np.cumsum([0, *(block.shape[1] for _, block in blocks)])
    number = {id(block): k for k, (_, block) in enumerate(blocks)}
    # `sizes` and `level` add up magnitudes: the deviation that rounding allows is relative to
    # these.
    total, sizes = np.zeros_like(coefficients), np.zeros_like(coefficients)
    intercept, level = np.zeros(len(coefficients)), np.zeros(len(coefficients))
    dual = np.zeros((len(model.fit_rows_), len(coefficients)))
    if fits[0].center is not None:
        total += fits[0].center.node_coef
        sizes += np.abs(total)
    with np.errstate(over="ignore", invalid="ignore"):
        for fit in fits:
            share = np.broadcast_to(fit.share, len(coefficients))
            embedding = fit.map
            own = [number[id(block)] for _, block in named_blocks(fit.part.whole)]
            at = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in own])
            own_dual = fit.dual * share
            dual[slice(None) if fit.part.rows is None else fit.part.rows] += own_dual
            for k, r in enumerate(own_dual.T):
                total[k, at] += embedding.rmatvec(r)
                sizes[k, at] += _magnitudes(embedding, np.abs(r))
            intercept += share * fit.intercept
            level += np.abs(share * fit.intercept)
        for bare in model.bare_fits_ or []:
            (k,) = (number[id(block)] for _, block in named_blocks(bare.part.whole))
            own_coef = bare.share[:, None] * bare.node_coef
            total[:, starts[k] : starts[k + 1]] += own_coef
            sizes[:, starts[k] : starts[k + 1]] += np.abs(own_coef)
        sizes, level = sizes * ROUNDING, level * ROUNDING
        near = (np.abs(total - coefficients) <= sizes).all()
        if model.blend_weights_ is not None:
            return bool(near)
        near &= (np.abs(intercept - model.intercept_) <= level).all()
        if model.dual_coef_ is None:  # a row is in several layers, which have their own
            return bool(near)
        return bool(near and np.array_equal(dual, np.asarray(model.dual_coef_)))


def _magnitudes(embedding: MapBlock, r: FloatArray) -> FloatArray:
    """Sums of the magnitudes that a product with nonnegative r adds up, shape (m,)."""
    # Coordinates of trees are not negative, those of linear terms may be.
    parts = [
        LinearMap(block.terms, np.abs(block.values)) if isinstance(block, LinearMap) else block
        for _, block in named_blocks(embedding)
    ]
    return np.concatenate([part.rmatvec(r) for part in parts])


def rebuilt_fits(model: KPPLinearModel) -> list[LinearFit]:
    """Rebuild the linear layer of a file of format 1, where it is one and not centred."""
    lost = cast("list[LinearFit]", LostFits())
    if REGIMES[model.regime_].averages_folds:
        return lost
    coefficients = np.atleast_2d(model.node_coef_)
    fit = LinearFit(
        part=MapPart(model.map_),
        rows=model.fit_rows_,
        dual=np.asarray(model.dual_coef_),
        intercept=np.atleast_1d(model.intercept_),
        alpha=alpha_of(model),
        share=np.ones(len(coefficients)),
        n_iter=model.n_iter_,
    )
    # With a centre the duals explain only a part of the coefficients, and the old file does not
    # hold the rest.
    return [fit] if add_up([fit], model) else lost
