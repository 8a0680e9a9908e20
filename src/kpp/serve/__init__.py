"""A fitted model behind HTTP: `kpp serve`, and the ASGI application itself."""

from kpp.serve.settings import Settings

__all__ = ["Settings"]
