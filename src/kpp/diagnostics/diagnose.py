"""`diagnose`: observables, metrics and findings of a model on one sample."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kpp._optional import optional
from kpp._parallel import one_blas_thread
from kpp._shown import Shown
from kpp._typing import FloatArray
from kpp.bounds.oracles import PartitionOracles, oracles_at
from kpp.bounds.predictors import logistic_losses
from kpp.bounds.samples import Sample, ask_one_target, sample_of, seen_rows
from kpp.bounds.spectrum import Spectrum
from kpp.diagnostics.findings import Finding, find
from kpp.diagnostics.metrics import (
    N_BINS,
    auc_reason,
    constant_metrics,
    loss_name,
    predictive_metrics,
)
from kpp.diagnostics.observables import (
    Observable,
    capacity,
    conditioning,
    margins,
    norms,
    partition,
    spectra_of,
    stability,
)
from kpp.models.nested import NESTED
from kpp.models.penalties import grids_of
from kpp.solvers.regression_losses import losses_of_answers


@dataclass(frozen=True, eq=False)
class Diagnostics(Shown):
    """The dashboard of a model on a sample.

    Parameters
    ----------
    observables : tuple of Observable
        The five families and the norm.
    metrics : dict of float
        Predictive metrics on the same rows.
    findings : tuple of Finding
        What stands out, warnings first.
    sample : str
        Which rows: "fit", "train" or "test"; "seen" for rows that were called test rows, and
        that fit has seen.
    regime : str
        Regime of the model.
    n_rows : int
        Number of rows.
    spectrum : Spectrum
        Of the Gram at the rows; of the first fold of a cross-fit model.
    margins : array of shape (n_rows,)
        Signed margins; empty for regression.
    oracles : PartitionOracles
        The partition of every tree.
    constant : dict of float, or None
        The figures of the constant of the fit on the same rows, see `constant_metrics`.
    no_auc : str or None
        Why there is no area under the ROC curve, where there is none.
    """

    observables: tuple[Observable, ...]
    metrics: dict[str, float]
    findings: tuple[Finding, ...]
    sample: str
    regime: str
    n_rows: int
    spectrum: Spectrum
    margins: FloatArray
    oracles: PartitionOracles
    constant: dict[str, float] | None = None
    no_auc: str | None = None

    def __getitem__(self, name: str) -> float:
        """Return the value of an observable or of a metric, by its name."""
        figures = {o.name: o.value for o in self.observables} | self.metrics
        if name not in figures:
            raise KeyError(f"No figure {name!r}; there are {', '.join(figures)}.")
        return figures[name]

    @property
    def codes(self) -> list[str]:
        """The codes of the findings."""
        return [finding.code for finding in self.findings]

    def to_frame(self) -> Any:
        """Return one line per figure.

        Returns
        -------
        frame : pandas DataFrame
            Indexed by name, with family, symbol, value, error, spread and method.
        """
        lines = [asdict(observable) for observable in self.observables]
        lines += [
            {"name": name, "family": "predictive", "symbol": "", "value": value, "error": 0.0}
            for name, value in self.metrics.items()
        ]
        frame = optional("pandas", "Diagnostics.to_frame").DataFrame(lines).set_index("name")
        return frame.assign(sample=self.sample, regime=self.regime)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings, lists and dicts, ready for JSON.

        Returns
        -------
        summary : dict
            Figures that are not finite become None.
        """
        return {
            "sample": self.sample,
            "regime": self.regime,
            "n_rows": self.n_rows,
            "observables": [_plain(asdict(o)) for o in self.observables],
            "metrics": _plain(self.metrics),
            "constant": None if self.constant is None else _plain(self.constant),
            "no_auc": self.no_auc,
            "findings": [_plain(asdict(f) | {"anchor": f.anchor}) for f in self.findings],
        }

    def __str__(self) -> str:
        lines = [f"Diagnostics on {self.n_rows} {self.sample} rows, regime {self.regime}"]
        for o in self.observables:
            error = f" ± {o.error:.2g}" if o.error else ""
            spread = f" (± {o.spread:.2g} over folds)" if np.isfinite(o.spread) else ""
            lines.append(f"  {o.family:12} {o.name:28} {o.value:.4g}{error}{spread}")
        lines += [f"  {'predictive':12} {k:28} {v:.4g}" for k, v in self.metrics.items()]
        if self.no_auc is not None:
            lines.append(f"The area under the ROC curve is {self.no_auc}.")
        lines += [str(finding) for finding in self.findings] or ["No findings."]
        return "\n".join(lines)


@one_blas_thread()
def diagnose(
    model: Any, X: Any, y: Any, *, sample: str = "test", silence: Sequence[str] = ()
) -> Diagnostics:
    r"""Compute the dashboard of a model: five families of observables, the norm, and findings.

    Capacity: :math:`\mathrm{Tr}(G)/n` and :math:`d_{\mathrm{eff}}(\alpha)/n`. Conditioning:
    :math:`\mu_{\min}(G) + \alpha`. Finite-forest stability: :math:`\Delta_K`. Partition quality:
    the gain IG. Margins near zero. And :math:`\|w\|`. All are conditional on the fitted
    representation; the Gram is that of the rows given, not centred.

    Parameters
    ----------
    model : KPPRegressor, KPPClassifier or Pipeline that ends in one
        Fitted.
    X, y : arrays of shape (n_rows, n_features) and (n_rows,)
        Rows. For "fit" and "train" what was given to fit, all rows.
    sample : {"test", "train", "fit"}
        Which rows these are; "fit" takes the rows of the linear layer. The paper's table is on
        the test inputs. Rows called "test" that fit has seen are a warning, and the result calls
        them "seen": their scores are not those of new rows.
    silence : sequence of str
        Codes of findings to leave out.

    Returns
    -------
    diagnostics : Diagnostics
        Exact up to 2,000 rows; above, what depends on all eigenvalues comes from random vectors,
        with its error.

    Notes
    -----
    A cross-fit model is taken fold by fold; values are means, with their spread.

    References
    ----------
    Section on the conditional dashboard, table dashboard-summary.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from kpp import KPPRegressor
    >>> from kpp.diagnostics import diagnose
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(30, max_depth=6, random_state=0)
    >>> model = KPPRegressor(forest, alpha=0.4329, tol=1e-12).fit(X, y)
    >>> diagnostics = diagnose(model, X, y, sample="train")
    >>> round(diagnostics["trace_per_row"], 3), round(diagnostics["effective_dimension_per_row"], 3)
    (0.143, 0.073)
    >>> round(diagnostics["norm"], 1), round(diagnostics["gain"])
    (727.3, 3609)
    """
    question = ask_one_target(model)
    # A few rows that equal one of the fit by chance void a guarantee, but hardly move a score.
    data = sample_of(question, X, y, sample, independent_duplicates=True)
    if data.seen is not None:
        warnings.warn(
            f"These rows were called test rows, but {data.seen}. Scores on them are not scores on "
            "new rows.",
            UserWarning,
            stacklevel=2,
        )
    labels = data.all_target
    if (classes := question.additive.classes) is not None:
        labels = classes[labels]
    # Each fold of a cross-fit model finds its own rows among all.
    parts = data.parts
    spectra = spectra_of(parts)
    stable = stability(parts, question.model.fit_record_.independent_trees)
    delta_k = stable[0].value if stable else np.nan
    oracles = oracles_at(data, labels)
    margin_figures: list[Observable] = []
    margin: FloatArray = np.empty(0)
    if question.is_classifier:
        margin_figures, margin = margins(data.rows.scores, data.target)
    scale = float(np.median(np.abs(margin))) if len(margin) else float(np.std(data.target))
    observables = (
        *capacity(question, spectra),
        *conditioning(question.model.alpha_, spectra, delta_k),
        *stable,
        *partition(oracles),
        *margin_figures,
        *norms(parts, scale),
    )
    metrics = predictive_metrics(question.model, data.rows, labels[data.index])
    constant = constant_metrics(question.model, data.target)
    further = _further_figures(data, metrics, constant)
    figures = {o.name: o.value for o in observables} | metrics | further
    no_auc = None if classes is None else auc_reason(data.target, classes.tolist())
    return Diagnostics(
        observables=observables,
        metrics=metrics,
        findings=tuple(find(question.model, figures, silence)),
        sample=sample if data.seen is None else "seen",
        regime=question.regime.name,
        n_rows=len(data.rows),
        spectrum=spectra[0],
        margins=margin,
        oracles=oracles,
        constant=constant,
        no_auc=no_auc,
    )


def _further_figures(
    sample: Sample, metrics: dict[str, float], constant: dict[str, float] | None
) -> dict[str, float]:
    """Figures that only the findings look at."""
    model = sample.model
    # Of parts that have chosen for themselves the choices are kept, not the grids.
    on_edge = model.alpha_selection_ != NESTED and any(
        len(alphas) > 1 and alpha in (np.min(alphas), np.max(alphas))
        for alpha, alphas in grids_of(model)
    )
    # A few equal rows by chance are no finding.
    seen = sample.kind == "test" and seen_rows(
        sample.question, sample.rows, independent_duplicates=True
    )
    regime = sample.question.regime
    # Parts that have left out a fold are bounded there.
    on_fit = sample.kind != "test" and not regime.leaves_folds_out
    depends = regime.grows_on_fit_rows and (on_fit or bool(seen))
    found = {"alpha_on_edge": float(on_edge), "label_dependent": float(depends)}
    if sample.n_classes:
        n_rows = len(sample.rows)
        found["skill"] = np.nan if constant is None else constant["log_loss"] - metrics["log_loss"]
        # What a calibrated model of these probabilities would show by chance.
        confidence = model.predict_proba(sample.rows).max(axis=1)
        variance = float(np.mean(confidence * (1 - confidence)))
        chance = np.sqrt(2 * min(N_BINS, n_rows) / (np.pi * n_rows) * variance)
        # Rows that fit has seen say nothing about the probabilities of new ones.
        is_new = sample.kind == "test" and sample.seen is None
        excess = metrics["calibration_error"] - 2 * float(chance)
        found["excess_calibration_error"] = excess if is_new else np.nan
    else:
        name = loss_name(model.loss_) or "rmse"
        power = 2 if name == "rmse" else 1
        level = np.nan if constant is None else constant[name] ** power
        found["skill"] = 1 - metrics[name] ** power / level if level else np.nan
    gap = _out_of_fold_gap(sample) if sample.kind != "test" else np.nan
    return found | {"out_of_fold_gap": gap}


def _out_of_fold_gap(sample: Sample) -> float:
    """One minus the ratio of the training loss to the out-of-fold loss."""
    rows, prediction = sample.model.fit_rows_, sample.model.oof_prediction_
    if prediction is None or len(prediction) != len(rows):
        return np.nan
    y, scores = sample.all_target[rows], sample.all_rows.scores[rows]
    if sample.n_classes:
        own = float(logistic_losses(scores, y).mean())
        chosen = np.clip(np.asarray(prediction)[np.arange(len(y)), y], 1e-300, 1.0)
        other = float(-np.log(chosen).mean())
    else:
        loss = sample.model.loss_
        found = scores[:, 0] if loss is None else loss.link(scores)[:, 0]
        own = float(losses_of_answers(loss, y, found).mean())
        other = float(losses_of_answers(loss, y, prediction).mean())
    return 1 - own / other if other > 0 else np.nan


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        key: (None if isinstance(value, float) and not np.isfinite(value) else value)
        for key, value in values.items()
    }
