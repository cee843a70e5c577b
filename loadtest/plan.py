"""One run of the driver: what is posted, how fast, from how many connections, whom it watches."""

from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, Literal, Protocol, Self, get_args
from urllib.parse import SplitResult, urlsplit

import orders
import saves
import workload
from wire import ENCODINGS, IDENTITIES, NUMBER_PLACE, Encoding, Identity, Request, requests
from workload import KEY_COUNT, KEYS, MODES, Keys, Mode, Shape


class Workload(Protocol):
    """One kind of documents; a module can be one."""

    def events(self, shape: Shape, /) -> Iterator[bytes]:
        """What is posted, without an end."""
        ...

    def every_key(self, shape: Shape, /) -> Iterator[bytes]:
        """What is posted before a run of unchanged events."""
        ...


Document = Literal["deal", "order", "save", "respelled"]
WORKLOADS: dict[Document, Workload] = {
    "deal": workload,
    "order": orders,
    "save": saves.Saves(1),
    "respelled": saves.Saves(saves.WAYS),
}
CHOICES = {
    "keys": KEYS,
    "mode": MODES,
    "encoding": ENCODINGS,
    "document": get_args(Document),
    "identity": IDENTITIES,
}
HELP = {
    "url": "where events are posted (http only); {key} in it: the key of the event (orders alone); "
    "{number} in it and in --topic: each number below --topics in turn",
    "topics": "to how many topics requests go in turn, where the address has {number}",
    "keys": "how keys are picked; bomb is incident A: one key, 800 kB, 1,013 saves a burst; "
    "new: no key comes twice",
    "key_count": "how many keys there are, for uniform and zipf",
    "document": "deal: 648 bytes, the key first; order: 200 to 2,400 bytes, the key in the middle; "
    "save: 1 kB; respelled: the same in another order, with blanks",
    "mode": "published: every event has new content; unchanged: the same again per key",
    "encoding": "one event a request, or batches of --batch",
    "producer": "who posts; {number} in it: each number below --producers in turn",
    "producers": "how many producers post in turn, where --producer has {number}",
    "identity": "key: an Idempotency-Key a request; id: an id an event (single and envelope)",
    "rate": "requests a second on a fixed schedule (open loop); 0: closed loop",
    "warm_up_s": "posted before the measured window, which it is not part of",
    "seconds": "the measured window",
    "events": "stop after that many events, if sooner; 0: time alone decides",
    "timeout_s": "an answer later than this counts as a timeout and the connection is replaced",
    "first": "the first counter of published events; runs on one topic must not overlap",
    "sample_s": "seconds between samples of the watched processes' memory; 0: none",
    "watch": "name=pid[,pid]: processor time and memory of these and their descendants",
    "bootstrap": "check the answers against the end offsets of --topic on this broker",
}


@dataclass(frozen=True)
class Plan:
    """The fields are the driver's options: `flags` and `parse` are each other's inverse."""

    url: str
    keys: Keys = "uniform"
    mode: Mode = "published"
    encoding: Encoding = "single"
    batch: int = 50
    connections: int = 64
    rate: float = 0.0
    warm_up_s: float = 1.0
    seconds: float = 5.0
    events: int = 0
    timeout_s: float = 10.0
    seed: int = 1
    first: int = 0
    sample_s: float = 0.0
    watch: tuple[str, ...] = ()
    bootstrap: str = ""
    topic: str = ""
    document: Document = "deal"
    key_count: int = KEY_COUNT
    topics: int = 1
    identity: Identity = "none"
    producer: str = ""
    producers: int = 1

    @classmethod
    def parse(cls, arguments: list[str]) -> Self:
        parser = ArgumentParser(
            description="Post events to a gateway and measure it; the answer is one JSON document.",
            formatter_class=ArgumentDefaultsHelpFormatter,
        )
        for option in fields(cls):
            flag = "--" + option.name.replace("_", "-")
            text = HELP.get(option.name, " ")
            if option.name == "url":
                parser.add_argument(flag, required=True, help=text)
            elif option.name == "watch":
                parser.add_argument(flag, action="append", default=[], help=text)
            else:
                kind, choices = type(option.default), CHOICES.get(option.name)
                parser.add_argument(
                    flag, type=kind, default=option.default, choices=choices, help=text
                )
        given = vars(parser.parse_args(arguments))
        return cls(**{**given, "watch": tuple(given["watch"])})

    def flags(self) -> list[str]:
        words = []
        for option in fields(self):
            value = getattr(self, option.name)
            for item in value if option.name == "watch" else (value,):
                if item != "":
                    words += ["--" + option.name.replace("_", "-"), str(item)]
        return words

    @property
    def address(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def shape(self) -> Shape:
        return Shape(self.keys, self.mode, self.seed, self.first, self.key_count)

    @property
    def watched(self) -> dict[str, list[int]]:
        pairs = (item.partition("=") for item in self.watch)
        return {name: [int(pid) for pid in pids.split(",")] for name, _, pids in pairs}

    def requests(self) -> Iterator[Request]:
        """What the run posts, in order."""
        values = WORKLOADS[self.document].events(self.shape)
        return self._requests(islice(values, self.events) if self.events else values)

    def _requests(self, values: Iterable[bytes]) -> Iterator[Request]:
        path = self.address._replace(scheme="", netloc="").geturl()
        paths, host = self._numbered(path), self.address.netloc
        names = (self.identity, self.first, self.producer_names)
        return requests(values, self.encoding, self.batch, host, paths, *names)

    @property
    def producer_names(self) -> list[str]:
        """Who posts; nobody where --producer is not given."""
        count = self.producers if NUMBER_PLACE in self.producer else 1
        names = [self.producer.replace(NUMBER_PLACE, str(number)) for number in range(count)]
        return names if self.producer else []

    @property
    def topic_names(self) -> list[str]:
        """The topics whose log is read; none where --topic is not given."""
        return self._numbered(self.topic) if self.topic else []

    def _numbered(self, text: str) -> list[str]:
        return [text.replace(NUMBER_PLACE, str(number)) for number in range(self.topics)]

    def with_(self, **changes: Any) -> Self:
        """The same plan but for these options."""
        return replace(self, **changes)

    def primer(self) -> Self:
        """The plan by which `priming` is posted."""
        return self.with_(rate=0.0, events=0)

    def priming(self) -> Iterator[Request]:
        """Every key once, before an unchanged run: posted, checked, not measured."""
        every_key = WORKLOADS[self.document].every_key
        return self._requests(every_key(self.shape) if self.mode == "unchanged" else ())
