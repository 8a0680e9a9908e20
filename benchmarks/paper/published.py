"""What the paper prints. Numbers are kept as text: their digits say how exactly they are known."""

from __future__ import annotations

# Set: (task, rows drawn, lambda of the dashboard as a position in logspace(-10, 0, 20)).
FIVE: dict[str, tuple[str, int | None, int]] = {
    "breast_cancer": ("classification", None, 0),
    "california_housing": ("regression", 2000, 14),
    "concrete": ("regression", None, 12),
    "spambase": ("classification", None, 6),
    "wine_quality_red": ("regression", None, 15),
}

# Tables bench-breast-cancer to bench-wine: mean and standard deviation of RMSE or error rate.
BENCHMARK: dict[str, dict[str, tuple[str, str]]] = {
    "breast_cancer": {
        "kpp_paper": ("0.0281", "0.0039"),
        "leaf": ("0.0351", "0.0107"),
        "random_forest": ("0.0351", "0.0164"),
        "gradient_boosting": ("0.0351", "0.0196"),
        "xgboost": ("0.0316", "0.0078"),
        "lightgbm": ("0.0351", "0.0164"),
        "catboost": ("0.0246", "0.0130"),
        "linear": ("0.0193", "0.0073"),
    },
    "california_housing": {
        "kpp_paper": ("0.5469", "0.0413"),
        "leaf": ("0.5709", "0.0389"),
        "random_forest": ("0.5710", "0.0387"),
        "gradient_boosting": ("0.5402", "0.0435"),
        "xgboost": ("0.5582", "0.0472"),
        "lightgbm": ("0.5287", "0.0421"),
        "catboost": ("0.5183", "0.0379"),
        "linear": ("0.6793", "0.0424"),
    },
    "concrete": {
        "kpp_paper": ("4.3024", "0.2299"),
        "leaf": ("4.7186", "0.2705"),
        "random_forest": ("4.8994", "0.3106"),
        "gradient_boosting": ("4.7117", "0.5452"),
        "xgboost": ("4.4086", "0.3166"),
        "lightgbm": ("4.2472", "0.2464"),
        "catboost": ("4.3316", "0.3106"),
        "linear": ("10.7906", "0.7432"),
    },
    "spambase": {
        "kpp_paper": ("0.0452", "0.0033"),
        "leaf": ("0.0443", "0.0031"),
        "random_forest": ("0.0465", "0.0039"),
        "gradient_boosting": ("0.0510", "0.0072"),
        "xgboost": ("0.0502", "0.0058"),
        "lightgbm": ("0.0456", "0.0051"),
        "catboost": ("0.0456", "0.0077"),
        "linear": ("0.0743", "0.0100"),
    },
    "wine_quality_red": {
        "kpp_paper": ("0.5506", "0.0272"),
        "leaf": ("0.5408", "0.0253"),
        "random_forest": ("0.5577", "0.0279"),
        "gradient_boosting": ("0.6016", "0.0265"),
        "xgboost": ("0.5823", "0.0299"),
        "lightgbm": ("0.5854", "0.0249"),
        "catboost": ("0.5811", "0.0174"),
        "linear": ("0.6291", "0.0205"),
    },
}
# Table bench-rank: rank of KPP among seven.
RANK = {
    "breast_cancer": 3,
    "california_housing": 4,
    "concrete": 2,
    "spambase": 1,
    "wine_quality_red": 1,
}

# Table bench-datasets: training rows, test rows, columns.
SIZES = {
    "breast_cancer": (455, 114, 30),
    "california_housing": (1600, 400, 8),
    "concrete": (824, 206, 8),
    "spambase": (3680, 921, 57),
    "wine_quality_red": (1279, 320, 11),
}
# Mean fit time of KPP in seconds, from the same tables; those of another machine.
FIT_SECONDS = {
    "breast_cancer": "0.74",
    "california_housing": "4.74",
    "concrete": "1.16",
    "spambase": "65.84",
    "wine_quality_red": "2.85",
}

# Table dashboard-empirical: mean and standard deviation; None where it does not apply.
DASHBOARD_COLUMNS = ("norm", "trace", "d_eff", "mu", "delta_k", "gain")
DASHBOARD: dict[str, tuple[tuple[str, str] | None, ...]] = {
    "breast_cancer": (
        ("397.92", "15.54"),
        ("0.0542", "0.0033"),
        None,
        ("8.02e-4", "1.15e-4"),
        ("0.149", "0.043"),
        ("0.582", "0.024"),
    ),
    "california_housing": (
        ("193.42", "3.38"),
        ("0.0125", "0.0004"),
        ("0.625", "0.009"),
        ("2.72e-3", "8.4e-5"),
        ("0.0565", "0.0111"),
        ("1.245", "0.058"),
    ),
    "concrete": (
        ("1437.73", "10.17"),
        ("0.0406", "0.0013"),
        ("0.933", "0.011"),
        ("2.07e-4", "0"),
        ("0.112", "0.023"),
        ("266.72", "21.05"),
    ),
    "spambase": (
        ("759.30", "4.12"),
        ("0.0057", "0.0001"),
        None,
        ("1.44e-7", "0"),
        ("0.0917", "0.0283"),
        ("0.575", "0.002"),
    ),
    "wine_quality_red": (
        ("118.11", "0.95"),
        ("0.0101", "0.0002"),
        ("0.425", "0.004"),
        ("7.85e-3", "0"),
        ("0.0246", "0.0063"),
        ("0.478", "0.032"),
    ),
}

# Table dashboard-bounds: trace term, uniform bound, trivial seeds.
BOUNDS: dict[str, tuple[tuple[str, str], tuple[str, str], str]] = {
    "breast_cancer": (("8.66", "0.13"), ("169.17", "6.13"), "5"),
    "california_housing": (("1.0797", "0.0081"), ("16902.29", "560.99"), "5"),
    "concrete": (("20.18", "0.27"), ("1434731", "18532"), "5"),
    "spambase": (("1.889", "0.010"), ("105.72", "0.56"), "5"),
    "wine_quality_red": (("0.663", "0.003"), ("7579.19", "111.05"), "5"),
}

# Table robust-radius: u_max, metric at 0, at u_max / 10, at u_max, and u_half.
RADII_COLUMNS = ("u_max", "at_0", "at_tenth", "at_max", "u_half")
RADII: dict[str, tuple[tuple[str, str], ...]] = {
    "breast_cancer": (
        ("2.44e-3", "2.88e-4"),
        ("0.972", "0.004"),
        ("0.925", "0.012"),
        ("0.000", "0.000"),
        ("1.74e-3", "2.0e-4"),
    ),
    "california_housing": (
        ("6.69e-4", "2.4e-5"),
        ("0.300", "0.041"),
        ("4.137", "0.116"),
        ("29.06", "0.27"),
        ("2.33e-6", "4.2e-7"),
    ),
    "concrete": (
        ("3.29e-3", "4.0e-5"),
        ("18.45", "1.75"),
        ("870.60", "8.75"),
        ("7245.62", "46.70"),
        ("3.16e-6", "3.8e-7"),
    ),
    "spambase": (
        ("8.26e-5", "6.7e-6"),
        ("0.954", "0.003"),
        ("0.846", "0.016"),
        ("0.001", "0.001"),
        ("3.35e-5", "2.7e-6"),
    ),
    "wine_quality_red": (
        ("4.59e-3", "7.3e-5"),
        ("0.305", "0.027"),
        ("9.109", "0.130"),
        ("70.78", "0.35"),
        ("6.16e-6", "5.1e-7"),
    ),
}

# Table diabetes-honest, and the figures of its text.
DIABETES: dict[str, dict[str, str]] = {
    "PB-01": {
        "rmse": "45.40",
        "trace": "0.143",
        "d_eff": "0.073",
        "mu_min": "3.7e-5",
        "norm": "727.4",
        "gain": "3609",
    },
    "PB-02": {
        "rmse": "53.26",
        "trace": "0.195",
        "d_eff": "0.080",
        "mu_min": "4.8e-5",
        "norm": "505.7",
        "gain": "3029",
    },
    "PB-03": {
        "rmse": "57.33",
        "trace": "0.161",
        "d_eff": "0.080",
        "norm": "662.7",
        "norm_std": "4.6",
        "rmse_averaged": "46.7",
    },
}
DIABETES_LAMBDA = "0.4329"

# Table bench-demsar: mean ranks over 20 sets; and the tests of its text.
MEAN_RANKS: dict[str, dict[str, str]] = {
    "regression": {
        "kpp_paper": "2.30",
        "catboost": "2.75",
        "random_forest": "3.80",
        "gradient_boosting": "3.90",
        "lightgbm": "4.55",
        "xgboost": "4.90",
        "linear": "5.80",
    },
    "classification": {
        "catboost": "2.675",
        "kpp_paper": "3.075",
        "random_forest": "3.700",
        "linear": "4.225",
        "lightgbm": "4.425",
        "xgboost": "4.675",
        "gradient_boosting": "5.225",
    },
}
FRIEDMAN = {"regression": ("37.95", "1.15e-6"), "classification": ("21.22", "1.68e-3")}
QUANTILE, DIFFERENCE = "2.948", "2.014"

# Wins, ties and losses over 40 sets. Leaf-only: of the full estimator; node weights: of the arm.
LEAF_ONLY = (23, 2, 15)
# On this set leaf-only lowers the RMSE by so much, the most of all 40.
LEAF_ONLY_MOST = ("auto_price", "35.8")
NODE_WEIGHTS = {"variance": (15, 5, 20), "uniform": (15, 5, 20)}
# Sets on which neither of the two weights beats the default.
DEFAULT_UNBEATEN = 15
