"""Section 6 of the paper and beyond: how far an input may move before the answer changes."""

from kpp.certificates.certify import Certificate, Crossing, certify
from kpp.certificates.changes import Change, changes_to
from kpp.certificates.curves import (
    CurveBand,
    RobustnessCurve,
    combine_curves,
    robustness_curve,
)
from kpp.certificates.display import RobustnessCurveDisplay
from kpp.certificates.lipschitz import (
    lipschitz_bound,
    lipschitz_constant,
    stable_change,
    stable_radius,
)
from kpp.certificates.raw_input import RawCertificate, certify_raw

__all__ = [
    "Certificate",
    "Change",
    "Crossing",
    "CurveBand",
    "RawCertificate",
    "RobustnessCurve",
    "RobustnessCurveDisplay",
    "certify",
    "certify_raw",
    "changes_to",
    "combine_curves",
    "lipschitz_bound",
    "lipschitz_constant",
    "robustness_curve",
    "stable_change",
    "stable_radius",
]
