"""The report of a model: one self-contained page, and the same content as data."""

from kpp.reports.report import report, report_data

__all__ = ["report", "report_data"]
