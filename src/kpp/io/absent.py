"""What stands for an unfitted booster where its library is not installed."""

from __future__ import annotations

from typing import Any

from sklearn.utils import InputTags, Tags, TargetTags

from kpp._optional import optional


class AbsentEstimator:
    """The name and the parameters of an estimator that cannot be imported.

    A loaded model needs none of it to predict, explain and certify; only another fit does.

    Parameters
    ----------
    library, name : str
        Where the class is imported from, and the extra that installs it.
    parameters : dict
        Its parameters, as saved.

    Examples
    --------
    >>> from kpp.io.absent import AbsentEstimator
    >>> AbsentEstimator("lightgbm", "LGBMRegressor", {"num_leaves": 7})
    LGBMRegressor(num_leaves=7)
    """

    def __init__(self, library: str, name: str, parameters: dict[str, Any]) -> None:
        self.library = library
        self.name = name
        self.parameters = parameters

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.parameters.items())
        return f"{self.name}({given})"

    def __sklearn_tags__(self) -> Tags:
        kind = "classifier" if self.name.endswith("Classifier") else "regressor"
        return Tags(kind, TargetTags(required=True), input_tags=InputTags(allow_nan=True))

    def __sklearn_clone__(self) -> AbsentEstimator:
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, as saved."""
        return dict(self.parameters)

    def set_params(self, **_: Any) -> AbsentEstimator:
        """Name the library that is missing."""
        return self.fit()

    def fit(self, *_: Any, **__: Any) -> AbsentEstimator:
        """Name the library that is missing."""
        optional(self.library, self.name, self.library)
        raise ImportError(
            f"{self.library} was missing when this model was loaded: load it again to fit it."
        )
