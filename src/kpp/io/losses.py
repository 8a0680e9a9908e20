"""The loss of a regressor, in a file."""

from __future__ import annotations

from typing import Any

from kpp.io.fields import is_number, require
from kpp.io.schema import Field, FieldTable, required
from kpp.models.linear import KPPLinearModel
from kpp.solvers import HuberLoss, Loss, PinballLoss, PoissonLoss, SquaredLoss

LOSS: FieldTable = {
    **required("name"),
    "delta": Field(since=2, default=None),
    "is_read": Field(since=2, default=None),
    "quantiles": Field(since=2, default=None),
    "scale": Field(since=2, default=None),
}


def loss_fields(model: KPPLinearModel) -> dict[str, Any] | None:
    """Take the loss apart; None for the squared loss, so that older versions read its models."""
    loss = model.loss_
    if isinstance(loss, HuberLoss):
        return {"name": "huber", "delta": loss.delta, "is_read": loss.is_read}
    if isinstance(loss, PinballLoss):
        return {"name": "quantile", "quantiles": list(loss.quantiles), "scale": loss.scale}
    if isinstance(loss, PoissonLoss):
        return {"name": "poisson", "scale": loss.rate}
    return None


def decode_loss(fields: Any, n_scores: int) -> Loss:
    """Put the loss together."""
    if fields is None:
        return SquaredLoss(n_scores)
    name = fields["name"]
    if name == "huber":
        require(n_scores == 1, "Huber's loss has one score")
        require(isinstance(fields["is_read"], bool), "whether a threshold was read must be known")
        return HuberLoss(_positive(fields["delta"], "delta"), is_read=fields["is_read"])
    if name == "poisson":
        require(n_scores == 1, "Poisson's loss has one score")
        return PoissonLoss(_positive(fields["scale"], "scale"))
    require(name == "quantile", "the loss must be known")
    quantiles = fields["quantiles"]
    right = isinstance(quantiles, list) and len(quantiles) == n_scores
    require(right and all(is_number(q) and 0 < q < 1 for q in quantiles), "a quantile a score")
    return PinballLoss(quantiles, _positive(fields["scale"], "scale"))


def _positive(value: Any, name: str) -> float:
    require(is_number(value) and value > 0, f"{name} of the loss must be positive")
    return float(value)
