"""An example for the help of every command; a test parses each of them."""

from __future__ import annotations

EXAMPLES = {
    "fit": "kpp fit houses.csv --target price --out houses.kpp",
    "predict": "kpp predict houses.kpp new.csv --out predictions.csv",
    "explain": "kpp explain houses.kpp houses.csv --row 3",
    "certify": "kpp certify houses.kpp houses.csv --row 3 --epsilon 2",
    "diagnose": "kpp diagnose houses.kpp houses.csv --fail-on warning",
    "drift": "kpp drift houses.kpp new.csv",
    "report": "kpp report houses.csv --target price --open",
    "info": "kpp info houses.kpp",
    "export": "kpp export houses.kpp --to onnx --out houses.onnx",
    "serve": "kpp serve houses.kpp --port 8000",
    "geometry": "kpp geometry iris --trees 10",
}
