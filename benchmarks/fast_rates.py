"""Excess risk against n on a map that was fixed before the sample: FR-R-01 and FR-C-01.

Run ``python benchmarks/fast_rates.py --out benchmarks/results``. The paper conjectures fast rates
(FR-R-01 for regression, FR-C-01 for classification) and states neither exponent nor penalty. Here
X is one of finitely many points, with known probabilities, and the law of Y given X is known too:
every risk is a finite sum, and so is that of the best score in the class. The forest was grown on
other rows. The estimator is the empirical minimiser in the ball that the paper's bounds speak of,
``max_norm=B``, without intercept and with a penalty that is negligible in it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from scipy.special import expit
from scipy.stats import norm
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.frozen import FrozenEstimator
from timing import describe, versions, write

from kpp import KPPClassifier, KPPEmbedding, KPPRegressor

mpl.use("Agg")
import matplotlib.pyplot as plt

DIMENSION = 5
PENALTY = 1e-3  # of the summed loss
NOISE = np.sqrt(3.0)  # half the width of a uniform law of variance 1
HEAVY = 1.5  # degrees of freedom of the heavy noise: no variance
SETTINGS = {
    "full": {
        "points": 50_000,
        "deep_points": 2000,
        "deep_trees": 50,
        "sizes": [500, 1000, 2000, 4000, 8000, 16000],
        "deep_sizes": [250, 500, 1000, 2000, 4000],
        "repeats": 80,
        "deep_repeats": 50,
        "bootstrap": 2000,
    },
    "quick": {
        "points": 2000,
        "deep_points": 300,
        "deep_trees": 5,
        "sizes": [100, 200, 400],
        "deep_sizes": [50, 100, 200],
        "repeats": 4,
        "deep_repeats": 2,
        "bootstrap": 20,
    },
}
COLORS = ["#0072b2", "#56b4e9", "#d55e00", "#e69f00", "#009e73"]
MARKERS = "os^Dv"


@dataclass(frozen=True, eq=False)
class Case:
    """A known distribution, the class on a fixed map, and its best score."""

    name: str
    holds: str  # which condition holds, and which does not
    forest: Any
    points: Any
    phi: Any  # the map at the points
    share: Any  # probabilities of the points
    truth: Any  # E[Y | X], or P(Y = 1 | X)
    best: Any  # the scores of the best w
    radius: float
    sizes: list[int]
    repeats: int
    draw: Callable[[Any, Any], Any]  # noise: generator and rows to y
    node_weight: str = "uniform"
    classes: bool = False
    theory: str = ""  # exponent for a finite map, where there is one
    predicted: Any = None  # n to the excess, by the normal approximation

    def excess(self, n: int, seed: list[int]) -> dict[str, float]:
        """Fit n rows, and return what the scores lose to the best ones."""
        rng = np.random.default_rng(seed)
        rows = rng.choice(len(self.share), n, p=self.share)
        y = self.draw(rng, rows)
        if self.classes and y.min() == y.max():
            y[0] = 1 - y[0]  # a classifier needs both classes; hardly ever
        kind: Any = KPPClassifier if self.classes else KPPRegressor
        model = kind(
            self.forest,
            node_weight=self.node_weight,
            regime="fixed",
            alpha=PENALTY / n if self.classes else PENALTY,  # its loss is averaged
            max_norm=self.radius,
            fit_intercept=False,
        ).fit(self.points[rows], y)
        scores = self.phi @ np.ravel(model.node_coef_)
        if not self.classes:
            # Of the squared loss, exactly; the difference of two large sums would lose digits.
            gap = scores - self.best
            cross = 2 * self.share @ (gap * (self.best - self.truth))
            return {"excess": float(self.share @ gap**2 + cross)}
        return {
            "excess": self.error(scores) - self.error(self.best),
            "logistic": self.logistic(scores) - self.logistic(self.best),
        }

    def error(self, scores: Any) -> float:
        """Probability of a wrong class, beyond that of the Bayes rule."""
        wrong = (scores > 0) != (self.truth > 0.5)
        return float(self.share @ (np.abs(2 * self.truth - 1) * wrong))

    def logistic(self, scores: Any) -> float:
        """Logistic risk."""
        loss = np.logaddexp(0, -scores) * self.truth + np.logaddexp(0, scores) * (1 - self.truth)
        return float(self.share @ loss)


def smooth(X: Any) -> Any:
    """A function that no forest of few leaves can represent."""
    wave = 2 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 4 * (X[:, 2] - 0.5) ** 2
    return wave + X[:, 3] + 0.5 * X[:, 4]


def grown(rng: Any, n_trees: int, leaves: int | None) -> Any:
    """A forest of rows that no fit sees."""
    X = rng.uniform(size=(1000, DIMENSION))
    y = smooth(X) + rng.uniform(-1, 1, len(X))
    # Columns at random where leaves are few: the combinations of leaves, and with them the
    # values of a score, are then many.
    forest = ExtraTreesRegressor(
        n_trees,
        max_leaf_nodes=leaves,
        max_features=1.0 if leaves is None else 1,
        random_state=0,
    )
    return FrozenEstimator(forest.fit(X, y))


def basis(phi: Any, share: Any) -> tuple[Any, Any]:
    """Coordinates of the points in the span of the map, and the spectrum of its second moment."""
    values, vectors = np.linalg.eigh(phi.T @ (share[:, None] * phi))
    kept = values > 1e-10 * values[-1]
    return phi @ vectors[:, kept], values[kept][::-1]


def squares(Z: Any, share: Any, target: Any) -> Any:
    """Scores of the best linear function of Z by squared loss."""
    root = np.sqrt(share)
    return Z @ np.linalg.lstsq(Z * root[:, None], target * root, rcond=None)[0]


def logistic_best(Z: Any, share: Any, eta: Any) -> Any:
    """Scores of the best linear function of Z by logistic loss: Newton's method."""
    w = np.zeros(Z.shape[1])
    for _ in range(100):
        p = expit(Z @ w)
        step = np.linalg.solve(
            Z.T @ ((share * p * (1 - p))[:, None] * Z), Z.T @ (share * (eta - p))
        )
        w += step / max(1.0, np.linalg.norm(step) / 10)
        if np.linalg.norm(step) < 1e-12 * (1 + np.linalg.norm(w)):
            break
    return Z @ w


def norm_of(phi: Any, scores: Any) -> float:
    """Norm of the smallest w with these scores."""
    return float(np.linalg.norm(np.linalg.lstsq(phi, scores, rcond=1e-12)[0]))


def regression_cases(settings: dict[str, Any]) -> list[Case]:
    """A few leaves, bounded noise; not well specified; heavy noise; and many leaves."""
    rng = np.random.default_rng(0)
    forest, points = grown(rng, 10, 4), rng.uniform(size=(settings["points"], DIMENSION))
    share = np.full(len(points), 1 / len(points))
    phi = KPPEmbedding(forest, node_weight="uniform").fit(points).map_.on(points)
    phi = phi.to_csr().toarray()
    Z, spectrum = basis(phi, share)
    f = smooth(points)
    best = squares(Z, share, f)
    f, best = f / best.std(), best / best.std()
    common = {
        "forest": forest,
        "points": points,
        "phi": phi,
        "share": share,
        "best": best,
        "radius": 2 * norm_of(phi, best),
        "sizes": settings["sizes"],
        "repeats": settings["repeats"],
    }
    ratio = spectrum[0] / spectrum[-1]
    lever = np.einsum("ij,jk,ik->i", Z, np.linalg.inv(Z.T @ (share[:, None] * Z)), Z)
    other = share @ (lever * (1 + (f - best) ** 2))

    def bounded(mean: Any) -> Callable[[Any, Any], Any]:
        return lambda rng, rows: mean[rows] + rng.uniform(-NOISE, NOISE, len(rows))

    def heavy(rng: Any, rows: Any) -> Any:
        return best[rows] + rng.standard_t(HEAVY, len(rows))

    return [
        Case(
            name="few leaves, bounded noise",
            holds=f"variance condition and strong convexity ({Z.shape[1]} dimensions, eigenvalues "
            f"within {ratio:.0f} times)",
            truth=best,
            draw=bounded(best),
            theory="1",
            predicted=lambda n: Z.shape[1] / n,
            **common,
        ),
        Case(
            name="few leaves, target outside the class",
            holds="the same; the best score is not E[Y | X]",
            truth=f,
            draw=bounded(f),
            theory="1",
            predicted=lambda n: other / n,
            **common,
        ),
        Case(
            name="few leaves, noise without variance",
            holds="strong convexity; the variance condition fails (Student's t, "
            f"{HEAVY} degrees of freedom), and |Y| has no bound",
            truth=best,
            draw=heavy,
            theory=f"{2 * (1 - 1 / HEAVY):.2f}",
            **common,
        ),
        deep_case(settings, bounded),
    ]


def deep_case(settings: dict[str, Any], bounded: Callable[[Any], Any]) -> Case:
    """Unpruned trees, whose spectrum goes on: w at the edge of the ball, along all of it."""
    rng = np.random.default_rng(1)
    forest = grown(rng, settings["deep_trees"], None)
    points = rng.uniform(size=(settings["deep_points"], DIMENSION))
    phi = KPPEmbedding(forest).fit(points).map_.on(points)
    gram = phi.gram()
    values, vectors = np.linalg.eigh(gram)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    j = np.arange(1, len(values) + 1)
    # Squares that barely add up: close to the hardest w of its norm, for all n at once.
    w = j**-0.55 * rng.choice([-1.0, 1.0], len(j)) * (values > 1e-12 * values[0])
    best = vectors @ (np.sqrt(values) * w)
    radius = float(np.linalg.norm(w) / best.std())
    best = best / best.std()
    middle = slice(7, max(9, len(j) // 8))
    decay = -np.polyfit(np.log(j[middle]), np.log(values[middle]), 1)[0]
    return Case(
        name="unpruned trees, w on the edge of the ball",
        holds="variance condition; no strong convexity at these n (eigenvalues fall as "
        f"j^-{decay:.2f})",
        forest=forest,
        points=points,
        phi=phi,
        share=np.full(len(points), 1 / len(points)),
        truth=best,
        best=best,
        radius=radius,
        sizes=settings["deep_sizes"],
        repeats=settings["deep_repeats"],
        draw=bounded(best),
        node_weight="gain",
        # k leading directions cost k / n and leave the sum of mu_j w_j^2 over j > k, of the order
        # of k^-(decay + 0.1): equal at this rate.
        theory=f"{(decay + 0.1) / (decay + 1.1):.2f}",
    )


def with_tail(size: Any, law: Callable[[Any], Any]) -> Any:
    """Probabilities of points for which |g| is at most u with probability law(u) / 2, u up to 1.

    The law is met half-way between any two values that |g| takes. Beyond 1 points are alike.
    """
    values, group, count = np.unique(np.round(size, 9), return_inverse=True, return_counts=True)
    ends = np.append((values[1:] + values[:-1]) / 2, values[-1])
    near = ends < 1
    mass = np.where(near, np.diff(law(np.minimum(ends, 1.0)), prepend=0.0), 0.0)
    mass[~near] = count[~near] / count[~near].sum() * mass.sum()
    share = (mass / count)[group]
    return share / share.sum()


def classification_cases(settings: dict[str, Any]) -> list[Case]:
    """One score; laws of X that give it different tails at 0; labels that it is not linked to."""
    rng = np.random.default_rng(0)
    forest, points = grown(rng, 10, 4), rng.uniform(size=(settings["points"], DIMENSION))
    phi = KPPEmbedding(forest, node_weight="uniform").fit(points).map_.on(points)
    phi = phi.to_csr().toarray()
    even = np.full(len(points), 1 / len(points))
    Z, _ = basis(phi, even)
    score = squares(Z, even, smooth(points))
    one = squares(Z, even, np.ones(len(points)))  # the roots: a constant is in the class
    # Not a value that the score takes: margins of 0 have no law.
    values = np.unique(np.round(score, 9))
    middle = np.searchsorted(values, np.median(score))
    score = score - (values[middle - 1] + values[middle]) / 2 * one
    score = 1.5 * score / score.std()
    tails: dict[str, tuple[Any, str, float | None]] = {
        "tail of 1/log(1/u)": (lambda u: 2 / (2 - np.log(u)), "no tail of any power", None)
    }
    for text, kappa in (("1/4", 0.25), ("1", 1.0), ("2", 2.0)):
        tails[f"kappa = {text}"] = (
            lambda u, kappa=kappa: u**kappa,
            f"tail with kappa = {text}",
            kappa,
        )
    common = {
        "forest": forest,
        "points": points,
        "phi": phi,
        "sizes": settings["sizes"],
        "repeats": settings["repeats"],
        "classes": True,
    }

    def labels(eta: Any) -> Callable[[Any, Any], Any]:
        return lambda rng, rows: (rng.uniform(size=len(rows)) < eta[rows]).astype(int)

    def by_normal(share: Any, eta: Any) -> Callable[[int], float]:
        """Expected excess if the scores were normal with the variance of the likelihood."""
        Z, _ = basis(phi, share)
        information = Z.T @ ((share * eta * (1 - eta))[:, None] * Z)
        spread = np.sqrt(np.einsum("ij,jk,ik->i", Z, np.linalg.inv(information), Z))
        cost = share * np.abs(2 * eta - 1)
        return lambda n: float(cost @ norm.cdf(-np.abs(score) / (spread / np.sqrt(n))))

    cases = []
    for name, (law, holds, power) in tails.items():
        share, eta = with_tail(np.abs(score), law), expit(score)
        cases.append(
            Case(
                name=name,
                holds=f"{holds}; linked: g = log-odds",
                share=share,
                truth=eta,
                best=score,
                radius=2 * norm_of(phi, score),
                draw=labels(eta),
                theory="" if power is None else f"{(1 + power) / 2:.3g}",
                predicted=by_normal(share, eta),
                **common,
            )
        )
    # Log-odds that bend at 0: no score of the class has them, and the best one crosses 0 elsewhere.
    eta = expit(np.where(score < 0, 3.0, 0.3) * score)
    best = logistic_best(Z, even, eta)
    cases.append(
        Case(
            name="not linked to the log-odds",
            holds="tail with kappa near 1 of the best score, which is not the log-odds",
            share=even,
            truth=eta,
            best=best,
            radius=2 * norm_of(phi, best),
            draw=labels(eta),
            theory="0.5",
            **common,
        )
    )
    return cases


def tail_exponent(case: Case, low: float = 0.02, high: float = 0.2) -> float:
    """Slope of log P(|g| <= u) between two u, from the distribution itself."""
    size = np.abs(case.best)
    mass = [float(case.share[size <= u].sum()) for u in (low, high)]
    return float(np.log(mass[1] / mass[0]) / np.log(high / low)) if mass[0] > 0 else np.nan


def slope(sizes: list[int], values: Any) -> float:
    """Least squares of log values on log n."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def slope_interval(
    sizes: list[int], found: Any, center: Any, n_draws: int
) -> tuple[float, list[float]]:
    """Slope of the centres of the repetitions, and its 95% bootstrap interval over them."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(n_draws):
        picks = [row[rng.integers(0, len(row), len(row))] for row in found]
        drawn.append(slope(sizes, [center(row) for row in picks]))
    ends = np.quantile(drawn, [0.025, 0.975])
    return slope(sizes, [center(row) for row in found]), [float(end) for end in ends]


def measure(number: int, case: Case, n_draws: int) -> dict[str, Any]:
    """Excess at every n, and slopes."""
    runs = [
        [case.excess(n, [number, n, repeat]) for repeat in range(case.repeats)] for n in case.sizes
    ]
    result: dict[str, Any] = {
        "name": case.name,
        "holds": case.holds,
        "theory": case.theory,
        "sizes": case.sizes,
        "repeats": case.repeats,
        "radius": case.radius,
    }
    if case.classes:
        result["tail_exponent"] = tail_exponent(case)
        result["error_of_best"] = case.error(case.best)
    if case.predicted is not None:
        result["predicted"] = [float(case.predicted(n)) for n in case.sizes]
        result["predicted_slope"] = slope(case.sizes, result["predicted"])
    for key in runs[0][0]:
        # Only where the best score is not the Bayes rule may another have a smaller error.
        found = np.array([[run[key] for run in row] for row in runs])
        size = np.maximum(np.abs(found), 1e-12)
        half = len(case.sizes) // 2
        whole, ends = slope_interval(case.sizes, size, np.median, n_draws)
        late, late_ends = slope_interval(case.sizes[half:], size[half:], np.median, n_draws)
        mean, mean_ends = slope_interval(case.sizes, size, np.mean, n_draws)
        result[key] = {
            "median": np.median(size, axis=1).tolist(),
            "mean": size.mean(axis=1).tolist(),
            "negative": float((found < -1e-9).mean()),
            "slope": whole,
            "interval": ends,
            "late_slope": late,
            "late_interval": late_ends,
            "mean_slope": mean,
            "mean_interval": mean_ends,
            "values": [[float(f"{value:.4g}") for value in row] for row in found],
        }
    return result


def figure(result: dict[str, Any], path: Path) -> None:
    """Both panels: medians, and the middle half of the repetitions."""
    titles = {
        "regression": "Regression: squared loss (FR-R-01)",
        "classification": "Classification: error rate (FR-C-01)",
    }
    fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), constrained_layout=True)
    for axis, (key, title) in zip(axes, titles.items(), strict=True):
        for row, color, marker in zip(result[key], COLORS, MARKERS, strict=False):
            values = np.abs(np.array(row["excess"]["values"]))
            low, high = np.quantile(np.maximum(values, 1e-12), [0.25, 0.75], axis=1)
            n, median = row["sizes"], row["excess"]["median"]
            label = f"{row['name']}: slope {row['excess']['slope']:.2f}"
            axis.fill_between(n, low, high, color=color, alpha=0.15, linewidth=0)
            axis.plot(n, median, marker=marker, color=color, label=label, markersize=5)
        first = result[key][0]
        n = np.array([min(first["sizes"]), max(first["sizes"])], dtype=float)
        top = first["excess"]["median"][0] * 1.6
        for power, style in ((0.5, "--"), (1.0, ":")):
            label = "n^-1/2" if power == 0.5 else "n^-1"
            axis.plot(n, top * (n / n[0]) ** -power, style, color="0.35", label=label)
        axis.set(xscale="log", yscale="log", title=title, xlabel="rows n")
        axis.legend(fontsize=7.5, loc="lower left")
        axis.grid(alpha=0.25, which="major")
    axes[0].set_ylabel("excess risk over the best in the class")
    axes[0].set_ylim(bottom=axes[0].get_ylim()[0] / 4)
    axes[1].set_ylim(bottom=axes[1].get_ylim()[0] / 12)
    fig.savefig(path, dpi=130)
    plt.close(fig)


def table(rows: list[dict[str, Any]], key: str, classes: bool) -> list[str]:
    """Slopes of one excess."""
    head = ["case", "median at the smallest n", "at the largest", "slope", "upper half", "of means"]
    head += ["normal approximation", "theory"] + ["tail exponent"] * classes
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        found = row[key]

        def shown(name: str, interval: str, found: Any = found) -> str:
            low, high = found[interval]
            return f"{found[name]:.2f} [{low:.2f}, {high:.2f}]"

        normal, theory = row.get("predicted_slope"), row["theory"]
        if key == "logistic":
            normal, theory = None, "1"
        cells = [
            row["name"],
            f"{found['median'][0]:.3g}",
            f"{found['median'][-1]:.3g}",
            shown("slope", "interval"),
            shown("late_slope", "late_interval"),
            shown("mean_slope", "mean_interval"),
            "" if normal is None else f"{normal:.2f}",
            f"-{theory}" if theory else "",
        ]
        if classes:
            cells.append(f"{row['tail_exponent']:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def page(result: dict[str, Any]) -> str:
    """The tables, and how they were made."""
    regression, classification = result["regression"], result["classification"]
    first, deep = regression[0], regression[-1]
    lines = [
        "# Fast rates on a fixed map",
        "",
        f"Written by `benchmarks/fast_rates.py` in {result['minutes']:.0f} minutes. "
        + describe(result),
        "",
        "Excess risk over the best score in the ball, in samples of n rows. The map was fixed "
        "before the sample; the estimator is the empirical minimiser in the ball (`max_norm=B`, "
        f"no intercept, penalty {PENALTY:g} of the summed loss). All risks are finite sums over a "
        "known distribution. Slopes are of log median against log n, with 95% bootstrap intervals "
        f"over the repetitions ({first['repeats']} at each n, {deep['repeats']} for unpruned "
        f"trees); n from {first['sizes'][0]:,} to {first['sizes'][-1]:,} "
        f"({deep['sizes'][0]:,} to {deep['sizes'][-1]:,} for unpruned trees). `upper half`: the "
        "larger half of these n. `normal approximation`: the slope of the expected excess if the "
        "estimate had its asymptotic law. `theory`: the exponent for a finite map as n grows; of "
        "the unpruned trees, over these n, that of the best number of leading directions for "
        "this spectrum and w.",
        "",
        "![Excess risk against n](fast_rates.png)",
        "",
        "## Regression",
        "",
        *table(regression, "excess", classes=False),
        *[f"- {row['name']}: {row['holds']}. B = {row['radius']:.3g}." for row in regression],
        "",
        "## Classification: error rate",
        "",
        "`tail exponent`: of P(|g| <= u) between u = 0.02 and 0.2.",
        "",
        *table(classification, "excess", classes=True),
        *[
            f"- {row['name']}: {row['holds']}. B = {row['radius']:.3g}. Error of the best score "
            f"beyond the Bayes rule: {row['error_of_best']:.4f}; excess negative in "
            f"{100 * row['excess']['negative']:.0f}% of runs, and its size is what is shown."
            for row in classification
        ],
        "",
        "## Classification: logistic risk, the same fits",
        "",
        *table(classification, "logistic", classes=True),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    settings: dict[str, Any] = SETTINGS["quick" if arguments.quick else "full"]
    start = time.process_time()
    result: dict[str, Any] = versions()
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    makers = {"regression": regression_cases, "classification": classification_cases}
    for number, (task, cases) in enumerate(makers.items()):
        result[task] = []
        for own, case in enumerate(cases(settings)):
            result[task].append(measure(10 * number + own, case, settings["bootstrap"]))
            if arguments.out:  # what was measured is kept, should the rest fail
                (arguments.out / "fast_rates.json").write_text(json.dumps(result, indent=1) + "\n")
            slope_of = result[task][-1]["excess"]["slope"]
            print(f"{case.name}: {slope_of:.2f}, {time.process_time() - start:.0f} s", flush=True)
    result["minutes"] = (time.process_time() - start) / 60
    if arguments.out:
        figure(result, arguments.out / "fast_rates.png")
    write("fast_rates", result, page(result), arguments.out)


if __name__ == "__main__":
    main()
