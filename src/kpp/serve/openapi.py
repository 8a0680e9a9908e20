"""The OpenAPI document of a service: its questions, with the model's own columns as schema."""

from __future__ import annotations

from typing import Any

from kpp import __version__
from kpp.serve.asking import QUESTIONS, Asked, parameters_of
from kpp.serve.bodies import ARROW, CSV, JSON
from kpp.serve.served import ServedModel, example_row
from kpp.serve.settings import Settings

NUMBER = {"type": ["number", "null"]}
INTEGER = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}
ERRORS = {
    400: "The body is not what its type says.",
    401: "The token is missing or wrong.",
    408: "The body did not arrive in time.",
    409: "This model cannot answer that.",
    413: "The body is too long.",
    415: "The body is of a type that is not read.",
    422: "Values, columns or parameters are not as the model needs them; all errors are listed.",
    503: "Too many questions are under way.",
    504: "The answer took too long.",
}


def document(served: ServedModel, settings: Settings) -> dict[str, Any]:
    """Write the document.

    Parameters
    ----------
    served : ServedModel
        The model, whose columns are the schema of a row.
    settings : Settings
        Limits, and whether a token is needed.

    Returns
    -------
    document : dict
        OpenAPI 3.1.
    """
    paths = {asked.path: {"post": _question(asked, served, settings)} for asked in QUESTIONS}
    secured = settings.token is not None
    paths |= {
        "/model": {"get": _read("The model card", JSON, {"type": "object"}, secured)},
        "/health": {"get": _read("Whether it answers", JSON, {"$ref": _of("Health")}, False)},
        "/metrics": {"get": _read("Counters for Prometheus", "text/plain", TEXT, secured)},
    }
    if served.report is not None:
        paths["/report"] = {"get": _read("The report", "text/html", TEXT, secured)}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": served.card["name"],
            "version": served.version,
            "description": _about(served, settings),
        },
        "paths": paths,
        "components": {"schemas": _schemas(served, settings)},
    }
    if secured:
        scheme = {"type": "http", "scheme": "bearer"}
        found["components"]["securitySchemes"] = {"token": scheme}
        found["security"] = [{"token": []}]
    return found


def _of(name: str) -> str:
    return f"#/components/schemas/{name}"


def _about(served: ServedModel, settings: Settings) -> str:
    card = served.card
    of = "" if card["target"] is None else f" of '{card['target']}'"
    return (
        f"A model of kpp {__version__}: {card['task']}{of}, {card['trees']} trees, fitted on "
        f"{card['rows_fitted']} rows, regime {card['regime']}. At most {settings.max_rows} rows "
        f"and {settings.max_bytes} bytes at a time."
    )


def _question(asked: Asked, served: ServedModel, settings: Settings) -> dict[str, Any]:
    most = settings.max_slow_rows if asked.slow else settings.max_rows
    names = ", ".join(column.name for column in served.columns)
    table = {"type": "string", "format": "binary"}
    never = {401} if settings.token is None else set()
    statuses = [status for status in ERRORS if status not in never]
    return {
        "summary": asked.title,
        "description": f"{asked.words} At most {most} rows.",
        "operationId": asked.path.strip("/"),
        "parameters": [p.openapi() for p in parameters_of(asked, served.question)],
        "requestBody": {
            "required": True,
            "content": {
                JSON: {
                    "schema": {"$ref": _of("SlowRows" if asked.slow else "Rows")},
                    "example": {"rows": [example_row(served.columns)]},
                },
                CSV: {"schema": {"type": "string", "description": f"A header and rows: {names}."}},
                ARROW: {"schema": table | {"description": "An Arrow IPC stream."}},
            },
        },
        "responses": {
            "200": {
                "description": "The answer, of the type that Accept asks for.",
                "content": {
                    JSON: {"schema": _answer(asked, served)},
                    CSV: {"schema": TEXT},
                    ARROW: {"schema": table},
                },
            },
        }
        | {str(status): _error(ERRORS[status]) for status in statuses},
    }


def _answer(asked: Asked, served: ServedModel) -> dict[str, Any]:
    several = served.card["n_targets"] > 1
    value: dict[str, Any] = {} if served.question.is_classifier else NUMBER
    if several:
        value = _list(NUMBER)
    common = {
        "n_rows": INTEGER,
        "prediction": _list(value),
        "model": TEXT,
        "remarks": _list(TEXT),
    }
    own: dict[str, dict[str, Any]] = {
        "/predict": {},
        "/interval": {"coverage": NUMBER, "is_guarantee": {"type": "boolean"}, "status": TEXT},
        "/explain": {"columns": _list(TEXT), "baseline": _list(NUMBER), "score": _list(NUMBER),
                     "contributions": _list(_list(NUMBER)), "convention": TEXT},
        "/rules": {"baseline": _list(NUMBER), "score": _list(NUMBER), "rules": _list(_list(
            {"type": "object", "required": ["rule", "contribution", "support"]})),
            "n_other": _list(INTEGER), "other": _list(NUMBER)},
        "/certify": {"margin": _list(NUMBER), "radius": _list(NUMBER), "metric": TEXT,
                     "lipschitz_radius": _list(NUMBER),
                     "never_changes": _list({"type": "boolean"})},
    }  # fmt: skip
    if asked.path == "/predict" and served.question.is_classifier:
        own["/predict"] = {"classes": _list({}), "probability": _list(_list(NUMBER))}
    if asked.path == "/interval":
        ends = {"set": _list(_list({}))}
        if not served.question.is_classifier:
            ends = {"lower": _list(value), "upper": _list(value)}
        own["/interval"] |= ends
    properties = common | own[asked.path]
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _read(title: str, kind: str, schema: dict[str, Any], secured: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": title,
        "responses": {"200": {"description": title, "content": {kind: {"schema": schema}}}},
    }
    if secured:
        found["responses"]["401"] = _error(ERRORS[401])
    else:
        found["security"] = []
    return found


def _error(words: str) -> dict[str, Any]:
    return {"description": words, "content": {JSON: {"schema": {"$ref": _of("Error")}}}}


def _schemas(served: ServedModel, settings: Settings) -> dict[str, Any]:
    row = {
        "type": "object",
        "title": "Row",
        "description": "A value for every column; null where it is missing.",
        "properties": {column.name: column.json_schema() for column in served.columns},
        "required": [column.name for column in served.columns],
        "additionalProperties": False,
    }
    listed = {
        "type": "array",
        "title": "Row as a list",
        "description": "The values of the columns, in their order.",
        "prefixItems": [column.json_schema() for column in served.columns],
        "minItems": len(served.columns),
        "maxItems": len(served.columns),
    }
    error = {
        "type": "object",
        "required": ["row", "message"],
        "properties": {"row": INTEGER, "column": TEXT, "message": TEXT},
    } | {"required": ["message"]}

    def rows(most: int) -> dict[str, Any]:
        items = {"anyOf": [{"$ref": _of("Row")}, {"$ref": _of("RowList")}]}
        return {
            "type": "object",
            "required": ["rows"],
            "additionalProperties": False,
            "properties": {
                "rows": {"type": "array", "minItems": 1, "maxItems": most, "items": items}
            },
        }

    return {
        "Row": row,
        "RowList": listed,
        "Rows": rows(settings.max_rows),
        "SlowRows": rows(settings.max_slow_rows),
        "Error": {
            "type": "object",
            "required": ["error", "n_errors", "errors"],
            "properties": {"error": TEXT, "n_errors": INTEGER, "errors": _list(error)},
        },
        "Health": {
            "type": "object",
            "required": ["status", "model"],
            "properties": {"status": {"const": "ok"}, "model": TEXT},
        },
    }
