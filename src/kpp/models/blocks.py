"""Which forests a model consists of, and how they are put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kpp._checks import check_choice
from kpp.forest.grow import check_forest, is_grown, traits_of

Spec = tuple[str, Any]

COMBINATIONS = ("auto", "blend", "joint")
# Values of `alpha_selection` that leave scores to learn the weights of a blend on.
BLENDING = ("fold-grown", "nested")
# The names of the blocks of main effects; the second is no forest.
LADDERS, LINEAR = "ladders", "linear"
# What ``forest="blend"`` stands for, beside main effects; see docs/blend.md.
BLEND: tuple[Spec, ...] = (("trees", "extra-trees"), ("boosted", "boosted-small"))


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
    is_linear : bool
        Whether a block of linear terms, `LINEAR`, stands beside the forests.
    """

    specs: list[Spec]
    is_list: bool = False
    is_blend: bool = False
    is_linear: bool = False


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
    >>> forests = [("a", "extra-trees"), ("b", "boosted")]
    >>> blocks_of(KPPRegressor(forests)).is_blend
    True
    >>> blocks_of(KPPRegressor(forests, combine="joint")).is_blend
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
    several = is_named or isinstance(forest, list)
    is_blend = combine == "blend" or (combine == "auto" and several and _can_blend(estimator))
    specs = list(BLEND) if is_named else forest_specs(forest)
    # The user's own ladders, in a list, are main effects already. Those of rows of the fit would
    # not be of other data, as all forests of the fixed regime are.
    has_own = any(traits_of(spec).by_columns_alone for _, spec in specs)
    is_given = all(is_grown(spec) for _, spec in specs)
    by_default = effects == "auto" and is_blend and not has_own and not is_given
    taken = {name for name, _ in specs}
    with_ladders = effects == "ladders" or (by_default and LADDERS not in taken)
    is_linear = effects == "linear" or (by_default and LINEAR not in taken)
    if effects in taken:
        raise ValueError(
            f"main_effects={effects!r} adds a block of that name, and a forest is called "
            f"{effects!r} too: give it another name."
        )
    if with_ladders:
        specs = [*specs, (LADDERS, LADDERS)]
    is_list = isinstance(forest, list) or is_named or is_blend or with_ladders or is_linear
    return Blocks(list(specs), is_list, is_blend, is_linear)


def _can_blend(estimator: Any) -> bool:
    """Whether the weights of a blend can be learned as the other parameters have it."""
    return estimator.alpha_selection in BLENDING and estimator.max_norm is None


def forest_specs(forest: Any) -> list[Spec]:
    """The parameter `forest` as a list of named forests."""
    specs = forest if isinstance(forest, list) else [("forest", forest)]
    pairs = all(isinstance(s, tuple) and len(s) == 2 and isinstance(s[0], str) for s in specs)
    if not specs or not pairs:
        raise ValueError(f"A list of forests must hold (name, forest) pairs; got {forest!r}.")
    for _, spec in specs:
        check_forest(spec)
    return specs
