"""What is written down of arrays over rows, as a program of one partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kpp.dask.session import Result


class Node:
    """A value on every partition: known, or written down as a call of a function on others."""

    __slots__ = ("args", "function", "item", "kwargs", "parts")

    def __init__(
        self,
        function: Callable[..., Any] | None = None,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        parts: list[Result] | None = None,
    ) -> None:
        self.function, self.args, self.kwargs = function, tuple(args), kwargs or {}
        self.parts = parts
        self.item: int | None = None

    def known_as(self, parts: list[Result], item: int | None) -> None:
        """Remember where the value is, and forget how it was made."""
        self.parts, self.item = parts, item
        self.function, self.args, self.kwargs = None, (), {}


class PerPartition(list[Any]):
    """An argument that differs from partition to partition."""


class Slot(int):
    """The place of a value in a program."""


class Steps:
    """Calls, and the place of every value."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self.place: dict[int, Slot] = {}


class Program:
    """Calls, one after the other; the first values are the inputs."""

    def __init__(self, calls: Any, items: list[int | None], wanted: Sequence[int]) -> None:
        self.calls, self.items, self.wanted = calls, items, wanted


def program_of(nodes: list[Node]) -> tuple[Steps, list[Node]]:
    """Calls that make the nodes from known ones, in an order in which they can be made."""
    inputs: list[Node] = []
    order: list[Node] = []
    seen: set[int] = set()
    # Without recursion: what a loop of a solver has written down may be long.
    waiting: list[tuple[Node, bool]] = [(node, False) for node in reversed(nodes)]
    while waiting:
        node, is_ready = waiting.pop()
        if is_ready:
            order.append(node)
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.parts is not None:
            inputs.append(node)
            continue
        waiting.append((node, True))
        waiting += [(arg, False) for arg in reversed(node.args) if isinstance(arg, Node)]
    steps = Steps()
    for place, node in enumerate([*inputs, *order]):
        steps.place[id(node)] = Slot(place)
    for node in order:
        args = tuple(steps.place[id(a)] if isinstance(a, Node) else a for a in node.args)
        steps.calls.append((node.function, args, node.kwargs))
    return steps, inputs


def run_program(partition: int, program: Program, *inputs: Any) -> Any:
    """Run a program on one partition."""
    values = [
        value if item is None else value[item]
        for value, item in zip(inputs, program.items, strict=True)
    ]
    for function, args, kwargs in program.calls:
        own = [
            values[a] if isinstance(a, Slot) else a[partition] if isinstance(a, PerPartition) else a
            for a in args
        ]
        values.append(function(*own, **kwargs))
    wanted = tuple(values[place] for place in program.wanted)
    return wanted if len(wanted) > 1 else wanted[0]
