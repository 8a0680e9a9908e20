"""The page to try a model: a form made of its columns; nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from kpp.reports.page import TEMPLATES

HERE = Path(__file__).parent


@cache
def page(*, needs_token: bool) -> tuple[str, str]:
    """The page and its content security policy.

    Parameters
    ----------
    needs_token : bool
        Whether the page asks for a token before anything else.

    Returns
    -------
    html, policy : str
        It holds nothing of the model: its script asks the service for the columns.

    Examples
    --------
    >>> from kpp.serve.page import page
    >>> html, policy = page(needs_token=False)
    >>> "default-src 'none'" in policy, "<form" in html
    (True, True)
    """
    style = (TEMPLATES / "style.css").read_text("utf-8") + (HERE / "page.css").read_text("utf-8")
    script = (HERE / "page.js").read_text("utf-8")
    html = (HERE / "page.html").read_text("utf-8")
    for mark, text in (("STYLE", style), ("SCRIPT", script)):
        html = html.replace(f"/*{mark}*/", text)
    html = html.replace('data-token="no"', f'data-token="{"yes" if needs_token else "no"}"')
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        f"connect-src 'self'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )
    return html, policy


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
