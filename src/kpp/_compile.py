"""Compile a loop with numba when it is first called, for fixed argument types."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Loop = TypeVar("Loop", bound=Callable[..., None])

_ARRAY = re.compile(r"(in|out) (\w+)\[(,*)\]")
_lock = threading.Lock()


def compiled(*signatures: str) -> Callable[[Loop], Loop]:
    """Turn a Python loop into machine code that releases the GIL.

    Each signature lists the arguments, separated by ``"; "``: ``in f8[]`` is a C-contiguous
    vector that is only read (so read-only arrays are welcome), ``out i4[,]`` a matrix that is
    written, ``i8`` a number. Types are fixed on purpose: a call with another dtype is a bug and
    raises, instead of compiling the loop anew.

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


def _compile(loop: Callable[..., None], signatures: tuple[str, ...]) -> Callable[..., None]:
    import numba

    types = [_numba_signature(signature) for signature in signatures]
    # fastmath stays off: certificates rely on IEEE arithmetic and on NaN.
    try:
        return numba.njit(types, nogil=True, cache=True)(loop)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return numba.njit(types, nogil=True)(loop)


def _numba_signature(signature: str) -> Any:
    from numba import types

    arguments = []
    for argument in signature.split("; "):
        array = _ARRAY.fullmatch(argument)
        if array is None:
            arguments.append(getattr(types, argument))
        else:
            access, dtype, commas = array.groups()
            arguments.append(
                types.Array(getattr(types, dtype), len(commas) + 1, "C", readonly=access == "in")
            )
    return types.void(*arguments)
