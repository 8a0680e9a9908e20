"""`Graph`: the nodes and constants of an ONNX graph, while it is built."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._optional import optional

# The operators of neural networks, of version 18, and those of machine learning, of version 3 or 5.
OPSET = 18
ML_DOMAIN = "ai.onnx.ml"


class Graph:
    """Nodes and constants with names of their own.

    Parameters
    ----------
    ml_opset : {3, 5}
        Version of the operators of machine learning.
    prefix : str
        What all names begin with: nothing else in the graph may begin so.
    """

    def __init__(self, ml_opset: int = 5, prefix: str = "kpp_") -> None:
        self.onnx = optional("onnx", "to_onnx", "export")
        self.ml_opset = ml_opset
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Name an array; equal arrays have one name.

        Parameters
        ----------
        values : array-like
            Numbers, booleans or texts.
        dtype : dtype, optional
            Type of numbers.

        Returns
        -------
        name : str
        """
        array = np.asarray(values, dtype=dtype)
        if array.dtype.kind in "OU":
            tensor = self.onnx.helper.make_tensor(
                "", self.onnx.TensorProto.STRING, array.shape, [t.encode() for t in array.flat]
            )
            key = ("text", array.shape, repr(array.tolist()).encode())
        else:
            tensor = self.onnx.numpy_helper.from_array(
                np.ascontiguousarray(array).reshape(array.shape)
            )
            key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = tensor.name = f"{self.prefix}c{len(self.constants)}"
            self.constants.append(tensor)
        return self._known[key]

    def add(self, operator: str, *inputs: str, ml: bool = False, **attributes: Any) -> str:
        """Add a node with one output, under a new name; see `node`."""
        return self.node(operator, list(inputs), attributes, ml=ml)

    def node(
        self,
        operator: str,
        inputs: list[str],
        attributes: dict[str, Any],
        *,
        ml: bool = False,
        output: str | None = None,
        n_unread: int = 0,
    ) -> str:
        """Add a node of which one output is read.

        Parameters
        ----------
        operator : str
            Its type.
        inputs : list of str
            Names of what it takes.
        attributes : dict
            Numbers, texts, and lists or arrays of them; arrays become tensors.
        ml : bool
            Whether it is an operator of machine learning.
        output : str, optional
            Name of what it gives; a new one by default.
        n_unread : int
            Further outputs that it has, which nobody reads.

        Returns
        -------
        output : str
        """
        output = output or f"{self.prefix}v{len(self.nodes)}"
        from_array = self.onnx.numpy_helper.from_array
        made = {
            name: from_array(value) if isinstance(value, np.ndarray) else value
            for name, value in attributes.items()
        }
        self.nodes.append(
            self.onnx.helper.make_node(
                operator,
                inputs,
                [output, *(f"{output}_{k}" for k in range(n_unread))],
                name=f"{self.prefix}n{len(self.nodes)}_{operator}",
                domain=ML_DOMAIN if ml else "",
                **made,
            )
        )
        return output

    def cast(self, value: str, dtype: Any) -> str:
        """Bring a tensor to a type of numbers."""
        return self.node("Cast", [value], {"to": self.type_of(dtype)})

    def type_of(self, dtype: Any) -> int:
        """ONNX's number of a type of NumPy; texts are strings."""
        kind = np.dtype(dtype)
        if kind.kind in "OU":
            return int(self.onnx.TensorProto.STRING)
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(kind))
