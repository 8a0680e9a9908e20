"""A fitted model in the forms that other tools read."""

from kpp.export.collapse import collapse
from kpp.export.onnx_converter import register_converters
from kpp.export.onnx_model import onnx_inputs, to_onnx
from kpp.export.treelite_model import encoded_rows, to_treelite

__all__ = [
    "collapse",
    "encoded_rows",
    "onnx_inputs",
    "register_converters",
    "to_onnx",
    "to_treelite",
]
