"""The choice between the C extensions and their Python twins: all of the C, or none of it.

The scanner has no twin here. If it is None, `formats.decode` and the topic's route read every
body, as they read bodies that the scanner does not accept.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

__all__ = [
    "CODE",
    "Records",
    "Scanner",
    "digested",
    "framed",
    "is_too_deep",
    "murmur2",
    "packed",
    "seal",
    "shown",
    "with_body",
]

Shown = Callable[[str, int, int, bytes | None, str | None, int], str | None]

digested: Callable[[bytes, list[bytes], bytes], bytes]
framed: Callable[[bytes], tuple[bytes, dict[bytes, bytes], int, int] | None]
is_too_deep: Callable[[bytes, int], bool]
murmur2: Callable[[bytes], int]
packed: Callable[[bytes, Iterable[bytes | int]], bytes]
shown: Shown  # None: `plain_answers.shown` must write the text
Scanner: Any
try:
    from headgate.native._answers import shown
    from headgate.native._depth import is_too_deep
    from headgate.native._digests import digested
    from headgate.native._heads import framed
    from headgate.native._keys import murmur2
    from headgate.native._records import Records, with_body
    from headgate.native._resp import packed
    from headgate.native._scanner import Scanner
except ModuleNotFoundError:
    from headgate.native.plain import (  # type: ignore[assignment]
        Records,
        digested,
        framed,
        is_too_deep,
        murmur2,
        packed,
        with_body,
    )
    from headgate.native.plain_answers import shown

    Scanner = None
try:
    from headgate.native._records import seal  # only if the processor has an instruction for it
except ImportError:
    from headgate.native.plain import seal

CODE: Final = "python" if Scanner is None else "c"
