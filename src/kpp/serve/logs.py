"""Logs: one JSON object a line on standard error, without a value of anybody's data.

Errors of other libraries may hold values in their words; of an unexpected error the log has its
class and where it was raised, never what it says.
"""

from __future__ import annotations

import json
import logging
import os
import traceback
from datetime import UTC, datetime
from typing import Any

NAME = "kpp.serve"
logger = logging.getLogger(NAME)


class JsonLines(logging.Formatter):
    """Writes a record as JSON.

    Examples
    --------
    >>> import json, logging
    >>> from kpp.serve.logs import JsonLines
    >>> record = logging.LogRecord("kpp.serve", 20, "", 0, "request", None, None)
    >>> record.fields = {"status": 200}
    >>> found = json.loads(JsonLines().format(record))
    >>> found["level"], found["event"], found["status"]
    ('info', 'request', 200)
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields = getattr(record, "fields", None)
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "worker": os.getpid(),
            "event": record.getMessage().strip(),
        }
        line |= fields if isinstance(fields, dict) else {}
        if record.exc_info and record.exc_info[1] is not None:
            line |= of_error(record.exc_info[1])
        return json.dumps(line, default=str)


def of_error(error: BaseException) -> dict[str, str]:
    """The class of an error and where it was raised, without its words."""
    frames = traceback.extract_tb(error.__traceback__)
    where = "" if not frames else f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"
    return {"error": type(error).__name__, "where": where}


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Write a line."""
    logger.log(level, event, extra={"fields": fields})


def log_config() -> dict[str, Any]:
    """For uvicorn, which sets up logging anew in every worker."""
    handler = {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}
    own = {"handlers": ["default"], "level": "INFO", "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "kpp.serve.logs.JsonLines"}},
        "handlers": {"default": handler},
        "loggers": {NAME: own, "uvicorn": own, "uvicorn.error": own},
    }
