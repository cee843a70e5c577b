"""What `[tracing]` must be like beside its types."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from headgate.config.errors import Problem, shown
from headgate.config.tracing_settings import TracingSettings

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*:\s*[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def tracing_contradictions(tracing: TracingSettings) -> Iterator[Problem]:
    """Everything that is wrong."""
    if tracing.endpoint is not None and _has_credentials(tracing.endpoint):
        fix = 'Give them as a header: tracing.headers = ["authorization: Basic ..."].'
        expected = "a URL without user and password"
        yield Problem("tracing.endpoint", shown(tracing.endpoint, secret=True), expected, fix)
    elif tracing.endpoint is not None and not _is_endpoint(tracing.endpoint):
        expected = "an http:// or https:// URL without a query, such as http://collector:4318"
        # without its scheme, it may have a password that is not seen as one
        found = shown(tracing.endpoint, secret="@" in tracing.endpoint)
        yield Problem("tracing.endpoint", found, expected)
    for header in tracing.headers:
        if _HEADER.fullmatch(header) is None:
            expected = 'each as "name: value", in ASCII'
            yield Problem("tracing.headers", shown(header, secret=True), expected)
    if not tracing.service_name.strip():
        yield Problem("tracing.service_name", shown(tracing.service_name), "a name")


def _has_credentials(url: str) -> bool:
    """Also where the rest of it is no URL: the option is shown and logged, and they must not be."""
    return "@" in re.split(r"[/?#]", url.partition("//")[2], maxsplit=1)[0]


def _is_endpoint(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port_is_fit = parts.port != 0  # raises ValueError where it is no number up to 65535
    except ValueError:
        return False
    if re.search(r"\s", url) or not port_is_fit or parts.query or parts.fragment:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
