"""Which forests a model consists of, and how they are put together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kpp._checks import check_choice
from kpp.forest.grow import check_forest, traits_of

Spec = tuple[str, Any]

COMBINATIONS = ("auto", "blend", "joint")
# The name of the block of ``main_effects="linear"``, which is no forest.
LINEAR = "linear"
# Extra trees, a booster of small steps, and one tree a column; see docs/blend.md.
BLEND: tuple[Spec, ...] = (
    ("trees", "extra-trees"),
    ("boosted", "boosted-slowly"),
    ("ladders", "ladders"),
)


@dataclass(frozen=True)
class Blocks:
    """The forests of a model.

    Parameters
    ----------
    specs : list of (str, forest)
        Names, ensembles, `Forest` objects or frozen estimators, by name.
    is_list : bool
        Whether the map is one of blocks, also where it is a single one.
    is_blend : bool
        Whether every block has a linear layer of its own, and their scores are blended.
    is_named : bool
        Whether it is the blend that ``forest="blend"`` stands for.
    is_linear : bool
        Whether a block of linear terms, `LINEAR`, stands beside the forests.
    """

    specs: list[Spec]
    is_list: bool = False
    is_blend: bool = False
    is_named: bool = False
    is_linear: bool = False

    def for_targets(self, n_targets: int) -> Blocks:
        """Leave the booster of ``forest="blend"`` out where it cannot be grown."""
        if n_targets == 1 or not self.is_named:
            return self
        return replace(self, specs=[s for s in self.specs if not traits_of(s[1]).one_target])


def blocks_of(estimator: Any) -> Blocks:
    """Read `forest`, `main_effects` and `combine` of an estimator; the last two where it has them.

    Parameters
    ----------
    estimator : KPPRegressor, KPPClassifier or KPPEmbedding
        Need not be fitted.

    Returns
    -------
    blocks : Blocks

    Examples
    --------
    >>> from kpp import KPPRegressor
    >>> from kpp.models.blocks import blocks_of
    >>> [name for name, _ in blocks_of(KPPRegressor("blend", main_effects=None)).specs]
    ['trees', 'boosted']
    >>> blocks_of(KPPRegressor([("a", "extra-trees"), ("b", "boosted")])).is_blend
    False
    """
    forest = estimator.forest
    effects = getattr(estimator, "main_effects", None)
    combine = getattr(estimator, "combine", "joint")
    check_choice("combine", combine, COMBINATIONS)
    if effects is not None:
        check_choice("main_effects", effects, ("auto", "ladders", "linear"))
    # An embedding has no scores to blend, and no other parameter to say so.
    is_named = isinstance(forest, str) and forest == "blend" and hasattr(estimator, "combine")
    is_blend = combine == "blend" or (combine == "auto" and is_named)
    named = [pair for pair in BLEND if pair[0] != "ladders"]
    specs = named if is_named else forest_specs(forest)
    # The user's own ladders, in a list, are main effects already.
    has_own = any(traits_of(spec).by_columns_alone for _, spec in specs)
    with_ladders = effects == "ladders" or (effects == "auto" and is_blend and not has_own)
    if with_ladders:
        specs = [*specs, ("ladders", "ladders")]
    is_linear = effects == "linear"
    if is_linear and any(name == LINEAR for name, _ in specs):
        raise ValueError(
            f"main_effects='linear' adds a block of that name, and a forest is called {LINEAR!r} "
            "too: give it another name."
        )
    is_list = isinstance(forest, list) or is_named or is_blend or with_ladders or is_linear
    return Blocks(list(specs), is_list, is_blend, is_named, is_linear)


def forest_specs(forest: Any) -> list[Spec]:
    """The parameter `forest` as a list of named forests."""
    specs = forest if isinstance(forest, list) else [("forest", forest)]
    pairs = all(isinstance(s, tuple) and len(s) == 2 and isinstance(s[0], str) for s in specs)
    if not specs or not pairs:
        raise ValueError(f"A list of forests must hold (name, forest) pairs; got {forest!r}.")
    for _, spec in specs:
        check_forest(spec)
    return specs
