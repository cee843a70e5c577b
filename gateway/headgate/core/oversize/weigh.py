"""Where the bytes of a JSON document are: the JSON Pointers that weigh most."""

import heapq
from typing import NamedTuple

from headgate.core.formats.jsontext import elements, members
from headgate.core.refusal import Refused
from headgate.native.plain_answers import shortened

DOMINANT = 0.5  # a child with half of its parent's bytes says more than the parent does
_MAX_STEPS = 64  # each step scans one value; bounds the work on adversarial nesting


class Weight(NamedTuple):
    """A JSON Pointer and the bytes of the value it names, as sent."""

    path: str
    bytes: int


def heaviest(document: bytes, count: int = 5) -> list[Weight]:
    """The heaviest values of a document, none inside another, heaviest first.

    A value is opened as long as one child holds half of it, and the root always: of a deal with
    600 options the answer is `/options`, not the deal and not one option. [] if it is not JSON.
    """
    heap: list[tuple[int, str, bytes]] = []
    found: list[Weight] = []
    _open("", document.strip(), heap)
    for _ in range(_MAX_STEPS):
        if not heap or len(found) == count:
            break
        size, path, value = heapq.heappop(heap)
        children = _children(path, value)
        if children and max(-child[0] for child in children) >= DOMINANT * -size:
            for child in children:
                heapq.heappush(heap, child)
        else:
            # A name may hold a lone surrogate, which no answer can carry: shown as its escape.
            shown = path.encode("utf-8", "backslashreplace").decode()
            found.append(Weight(shortened(shown), -size))
    return found


def _open(path: str, value: bytes, heap: list[tuple[int, str, bytes]]) -> None:
    for child in _children(path, value):
        heapq.heappush(heap, child)


def _children(path: str, value: bytes) -> list[tuple[int, str, bytes]]:
    try:
        if value[:1] == b"{":
            named = list(members(value).items())
        elif value[:1] == b"[":
            named = [(str(index), child) for index, child in enumerate(elements(value))]
        else:
            return []
    except (Refused, UnicodeDecodeError):
        return []
    return [(-len(child), f"{path}/{_escaped(name)}", child) for name, child in named]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
