"""Addresses of stores as they may be printed."""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from ledger.libpq import is_torn

_SECRETS: Final = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")


def masked(url: str) -> str:
    """*url* without its passwords, be they before the host or in the query."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # no address at all, or a port that is no number
        parsed = None
    if parsed is None or (parsed.get_backend_name() != "sqlite" and is_torn(url)):
        secrets = "|".join(_SECRETS)
        return re.sub(rf"([?&](?:{secrets})=)[^&]*", r"\1***", re.sub(r"//.*@", "//***@", url, flags=re.DOTALL))
    told = [name for name in _SECRETS if name in parsed.query]
    shown = parsed.update_query_dict(dict.fromkeys(told, "***")) if told else parsed
    return shown.render_as_string(hide_password=True).replace("%2A%2A%2A", "***")
