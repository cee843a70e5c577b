"""Tokens in forms, so that no page of elsewhere can have its reader's browser change anything.

The browser's own headers (`edge.origins`) tell strangers' pages already; this holds where a proxy
takes them away. A token is of the caller and of this process: after a restart, load the page again.
"""

import base64
import hashlib
import hmac
import os

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.edge.auth import Identity

FIELD = "csrf"


class FormTokens:
    """secret: random bytes that nobody else knows."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._secret = secret or os.urandom(32)

    def of(self, caller: Identity) -> str:
        """What the caller's forms carry."""
        known = "\0".join((caller.name, *sorted(caller.roles)))
        digest = hmac.digest(self._secret, known.encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def check(self, caller: Identity, given: object) -> None:
        """Raises Refused."""
        text = given if isinstance(given, str) else ""
        if not hmac.compare_digest(text.encode(), self.of(caller).encode()):
            detail = "this form is not of a page that was made for you: load the page again"
            raise Refused(Failure(Reason.FORBIDDEN, detail))
