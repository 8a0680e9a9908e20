"""Compile a loop with numba when it is first called, for fixed argument types."""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar

Loop = TypeVar("Loop", bound=Callable[..., None])
Helper = TypeVar("Helper", bound=Callable[..., Any])
Tuple = TypeVar("Tuple", bound=type)

_ARRAY = re.compile(r"(in|out) (\w+)\[(,*)\]")
_lock = threading.Lock()
_tuples: dict[str, tuple[type, str]] = {}
_helpers: dict[Any, Any] = {}  # function -> its compiled form, None until a loop needs it


def compiled(*signatures: str) -> Callable[[Loop], Loop]:
    """Turn a Python loop into machine code that releases the GIL.

    Each signature lists the arguments, separated by ``"; "``: ``in f8[]`` is a C-contiguous
    vector that is only read (so read-only arrays are welcome), ``out i4[,]`` a matrix that is
    written, ``i8`` a number, ``Nodes`` a named tuple that `loop_tuple` made known. Types are
    fixed on purpose: a call with another dtype is a bug and raises, instead of compiling the
    loop anew.

    A loop may call functions that are marked by `loop_helper`, by their global names.

    Compilation waits for the first call, and so does the import of numba: importing the package
    stays cheap. The machine code is cached on disk where numba finds a writable folder; where
    it finds none the loop is compiled once per process.
    """

    def decorate(loop: Loop) -> Loop:
        machine_code: list[Callable[..., None]] = []

        @wraps(loop)
        def call(*args: Any) -> None:
            if not machine_code:
                with _lock:
                    if not machine_code:
                        machine_code.append(_compile(loop, signatures))
            machine_code[0](*args)

        return call  # type: ignore[return-value]

    return decorate


def loop_helper(helper: Helper) -> Helper:
    """Mark a function that compiled loops may call; it may itself call others so marked.

    Called from Python it stays what it is. In a loop it is compiled for whatever it is given.
    """
    _helpers[helper] = None
    return helper


def loop_tuple(fields: str) -> Callable[[Tuple], Tuple]:
    """Let signatures name a NamedTuple whose fields have these types.

    An array of a tuple must be read-only exactly where its field says ``in``: unlike plain
    arguments, tuples are not converted.
    """

    def decorate(kind: Tuple) -> Tuple:
        _tuples[kind.__name__] = (kind, fields)
        return kind

    return decorate


def _compile(loop: Callable[..., None], signatures: tuple[str, ...]) -> Callable[..., None]:
    import numba
    from numba import types

    known = [types.void(*_numba_types(signature)) for signature in signatures]
    loop = _with_helpers(loop)
    # fastmath stays off: certificates rely on IEEE arithmetic and on NaN.
    try:
        return numba.njit(known, nogil=True, cache=True)(loop)
    except RuntimeError:  # no place for files, which is no mistake; any other error comes again
        return numba.njit(known, nogil=True)(loop)


def _with_helpers(function: Any) -> Any:
    """The same function, with the helpers that it calls in compiled form.

    numba's files on disk know the text of the loop, not that of its helpers. So their code
    becomes part of the name that the file goes by: after a change the loop is compiled anew.
    """
    import numba

    used = {
        name: helper
        for name in function.__code__.co_names
        if isinstance(helper := function.__globals__.get(name), FunctionType) and helper in _helpers
    }
    if not used:
        return function
    for helper in used.values():
        if _helpers[helper] is None:
            # Inlined for certain: a call within an inner loop would cost as much as its work.
            _helpers[helper] = numba.njit(forceinline=True)(_with_helpers(helper))
    scope = function.__globals__ | {name: _helpers[helper] for name, helper in used.items()}
    other = FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    code = [_helpers[helper].py_func for helper in used.values()]
    digest = zlib.crc32(repr([_text(helper) for helper in code]).encode())
    other.__qualname__ = f"{function.__qualname__}_{digest:08x}"
    other.__module__ = function.__module__
    return other


def _text(function: Any) -> tuple[Any, ...]:
    """What a function does; its own helpers are in its name."""
    code = function.__code__
    return function.__qualname__, code.co_code, code.co_consts, code.co_names


def _numba_types(signature: str) -> list[Any]:
    from numba import types

    arguments: list[Any] = []
    for argument in signature.split("; "):
        array = _ARRAY.fullmatch(argument)
        if array is not None:
            access, dtype, commas = array.groups()
            arguments.append(
                types.Array(getattr(types, dtype), len(commas) + 1, "C", readonly=access == "in")
            )
        elif argument in _tuples:
            kind, fields = _tuples[argument]
            named: Any = types.NamedTuple  # numba does not say what it takes
            arguments.append(named(_numba_types(fields), kind))
        else:
            arguments.append(getattr(types, argument))
    return arguments
