"""A fitted model in the forms that other tools read."""

from kpp.export.collapse import collapse
from kpp.export.onnx_model import onnx_inputs, to_onnx

__all__ = ["collapse", "onnx_inputs", "to_onnx"]
