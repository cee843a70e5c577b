"""What is posted: deterministic events by seed. Pure: no clock, no environment, no sockets.

`published` gives every event new content (a fixed-width counter, so the size stays the same);
`unchanged` repeats the same content per key, so that after one round nothing is new.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, get_args

import orjson

Keys = Literal["uniform", "zipf", "hot", "bomb", "new"]
Mode = Literal["published", "unchanged"]
KEYS = get_args(Keys)
MODES = get_args(Mode)

EVENT_BYTES = 648
KEY_COUNT = 1_000
ZIPF_EXPONENT = 1.1
PICKS = 65_536  # the picked keys are drawn once and repeated: drawing must not cost the generator
COUNTER_DIGITS = 12

BOMB_KEY = "2342565"
BOMB_BYTES = 800_000
BOMB_OPTIONS = 600
BOMB_BACK_ON = 413  # about 70 %; with the 600 switched off first: the incident's 1,013 saves

# Plain words rather than one repeated letter: a compressed size should look like a real event's.
TEXT = (
    "massage hotel weekend dinner voucher sauna breakfast guided tour museum concert ticket skiing "
    "rental rafting course photo studio evening menu for two including welcome drink and parking"
)
WORDS = tuple(TEXT.split())


class Shape(NamedTuple):
    """One stream of events. `first` is the first counter of `published` (runs must not overlap)."""

    keys: Keys = "uniform"
    mode: Mode = "published"
    seed: int = 1
    first: int = 0
    key_count: int = KEY_COUNT


class Template(NamedTuple):
    """One key's event, cut where the counter goes."""

    head: bytes
    tail: bytes

    def render(self, counter: int) -> bytes:
        return b"%b%0*d%b" % (self.head, COUNTER_DIGITS, counter, self.tail)


def prose(rng: random.Random, size: int) -> str:
    """ASCII words of exactly `size` characters."""
    text = ""
    while len(text) < size:
        text += rng.choice(WORDS) + " "
    return text[:size]


def template(number: int, rng: random.Random) -> Template:
    """The event of key number `number`: `EVENT_BYTES` of JSON once the counter is in."""
    head = b'{"id":"deal-%06d","version":"' % number
    facts = {
        "type": "deal.updated",
        "merchant": rng.randrange(10**6),
        "price_minor": rng.randrange(100, 100_000),
        "currency": "EUR",
        "active": rng.random() < 0.7,
        "tags": [rng.choice(WORDS) for _ in range(4)],
        "title": prose(rng, 40),
    }
    tail = b'",' + orjson.dumps(facts)[1:-1] + b',"text":"'
    room = EVENT_BYTES - len(head) - COUNTER_DIGITS - len(tail) - len(b'"}')
    return Template(head, tail + prose(rng, room).encode() + b'"}')


def new_key(shape: Shape) -> Template:
    """An event whose counter is its key, for runs in which no key comes twice."""
    head, tail = template(0, random.Random(shape.seed))
    digits = len(head) - len(b'{"version":"","id":"')
    return Template(b'{"version":"%0*d","id":"' % (digits, 0), tail)


def templates(shape: Shape) -> list[Template]:
    rng = random.Random(shape.seed)
    return [template(number, rng) for number in range(shape.key_count)]


def picks(shape: Shape) -> list[int]:
    """Indexes of keys in the order they are posted (repeated by `events`)."""
    rng = random.Random(shape.seed + 1)
    if shape.keys == "hot":
        return [0]
    numbers, drawn = range(shape.key_count), max(PICKS, 4 * shape.key_count)
    if shape.keys == "zipf":
        weights = [1 / rank**ZIPF_EXPONENT for rank in range(1, shape.key_count + 1)]
        return rng.choices(numbers, weights, k=drawn)
    return rng.choices(numbers, k=drawn)


def events(shape: Shape) -> Iterator[bytes]:
    """An endless stream of event values."""
    if shape.keys == "bomb":
        yield from bomb_stream(shape)
        return
    if shape.keys == "new":
        yield from map(new_key(shape).render, itertools.count(shape.first))
        return
    per_key = templates(shape)
    yield from stream(shape, lambda number, counter: per_key[number].render(counter))


def stream(shape: Shape, render: Callable[[int, int], bytes]) -> Iterator[bytes]:
    """An endless stream of what `render` makes of key numbers and counters."""
    step = 1 if shape.mode == "published" else 0
    counters = itertools.count(shape.first if step else 0, step)
    for number, counter in zip(itertools.cycle(picks(shape)), counters, strict=False):
        yield render(number, counter)


def every_key(shape: Shape) -> Iterator[bytes]:
    """Each key's `unchanged` event once: posted before a measured run of unchanged events."""
    if shape.keys == "bomb":
        yield bomb_deal(shape.seed, [True] * BOMB_OPTIONS, 0)
        return
    per_key = templates(shape)
    for index in sorted(set(picks(shape))):
        yield per_key[index].render(0)


def bomb_stream(shape: Shape) -> Iterator[bytes]:
    if shape.mode == "unchanged":
        yield from itertools.repeat(next(every_key(shape)))
    for burst in itertools.count(shape.first):
        yield from bomb_saves(shape.seed, burst)


def bomb_saves(seed: int, burst: int = 0) -> Iterator[bytes]:
    """Incident A, one hourly burst: every option saved off, then about 70 % saved back on.

    Yields the whole deal (about `BOMB_BYTES`) after each of the 1,013 saves.
    """
    active = [True] * BOMB_OPTIONS
    back_on = random.Random(seed + burst).sample(range(BOMB_OPTIONS), BOMB_BACK_ON)
    flips = [(index, False) for index in range(BOMB_OPTIONS)] + [(i, True) for i in back_on]
    options = bomb_options(seed)
    head = b'{"id":"%b","burst":"%0*d","options":[' % (BOMB_KEY.encode(), COUNTER_DIGITS, burst)
    rendered = [option + b"true}" for option in options]
    for index, state in flips:
        active[index] = state
        rendered[index] = options[index] + (b"true}" if state else b"false}")
        yield head + b",".join(rendered) + b"]}"


def bomb_deal(seed: int, active: list[bool], burst: int) -> bytes:
    head = b'{"id":"%b","burst":"%0*d","options":[' % (BOMB_KEY.encode(), COUNTER_DIGITS, burst)
    pairs = zip(bomb_options(seed), active, strict=True)
    return head + b",".join(o + (b"true}" if on else b"false}") for o, on in pairs) + b"]}"


def bomb_options(seed: int) -> list[bytes]:
    """The 600 options, each open at the end: `...,"active":`."""
    rng = random.Random(seed)
    size = BOMB_BYTES // BOMB_OPTIONS
    options = []
    for number in range(BOMB_OPTIONS):
        head = b'{"option":%d,"price_minor":%d,"text":"' % (number, rng.randrange(100, 100_000))
        tail = b'","active":'
        room = size - len(head) - len(tail) - len(b"true},")
        options.append(head + prose(rng, room).encode() + tail)
    return options
