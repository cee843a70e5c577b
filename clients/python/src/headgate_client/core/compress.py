"""Compression of request bodies."""

import gzip
import sys
from collections.abc import Callable

from headgate_client.errors import InvalidOptionError
from headgate_client.settings import Compression

_GZIP_LEVEL = 6


def compressor(compression: Compression | None) -> Callable[[bytes], bytes] | None:
    """Return a function that compresses; equal bytes always give equal results."""
    if compression is None:
        return None
    if compression == "gzip":
        return lambda content: gzip.compress(content, _GZIP_LEVEL, mtime=0)
    if compression != "zstd":
        raise InvalidOptionError(f"compression: use 'gzip' or 'zstd', not {compression!r}")
    return _zstd()


def _zstd() -> Callable[[bytes], bytes]:
    if sys.version_info >= (3, 14):
        from compression.zstd import compress
    else:
        try:
            from backports.zstd import compress
        except ImportError:
            raise InvalidOptionError(
                "compression: zstd needs Python 3.14 or `pip install headgate-client[zstd]`"
            ) from None
    return lambda content: bytes(compress(content))
