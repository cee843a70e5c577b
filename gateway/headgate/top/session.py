"""The live table: one thread asks the gateway, the other one shows what it said and takes keys."""

import time
from collections.abc import Callable
from datetime import datetime
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import NamedTuple

from headgate.core.terminal.style import Style
from headgate.top.frame import SORT_KEYS, VIEW_KEYS, Shown, Trouble, frame, rows_in
from headgate.top.readings import Reading, View, kept
from headgate.top.screen import Screen
from headgate.top.views import SORTS, Sort

_TICK_S = 1.0  # how long nobody has answered is said by the second
_QUIT = "q"
_STEPS = {"j": 1, "\x1b[B": 1, "\x1bOB": 1, "k": -1, "\x1b[A": -1, "\x1bOA": -1}
_PAGES = {" ": 1, "\x1b[6~": 1, "\x1b[5~": -1}
_FIRST = ("\x1b[H", "\x1b[1~", "\x1bOH")


class NoAnswerError(Exception):
    """A poll failed; the text says why."""


Poll = Callable[[View], Reading]


class Options(NamedTuple):
    """What was asked for. sort: of the view; None = its first."""

    url: str
    view: View = View.PRODUCERS
    sort: Sort | None = None
    interval_s: float = 2.0


class _Answer(NamedTuple):
    """found: an error of ours, too, so that it is not lost with its thread."""

    view: View
    found: Reading | Exception


class _Asking(Thread):
    """Polls the view that is wanted; at once when another one is. Ends with the process."""

    def __init__(self, poll: Poll, view: View, interval_s: float, wake: Callable[[], None]) -> None:
        super().__init__(daemon=True, name="asking")
        self._poll, self._interval_s, self._wake = poll, interval_s, wake
        self._view, self._again = view, Event()
        self.answers = SimpleQueue[_Answer]()

    def want(self, view: View) -> None:
        self._view = view
        self._again.set()

    def run(self) -> None:
        while True:
            self._again.clear()
            view = self._view
            try:
                self.answers.put(_Answer(view, self._poll(view)))
            except Exception as error:  # raised again by who takes it
                self.answers.put(_Answer(view, error))
            self._wake()
            self._again.wait(self._interval_s)


class Session:
    """What is shown, and what keys change of it."""

    def __init__(self, options: Options) -> None:
        self._options, self.view = options, options.view
        self._sorts = {view: sorts[0] for view, sorts in SORTS.items()}
        self._readings: dict[View, list[Reading]] = {view: [] for view in View}
        self._at: dict[View, datetime] = {}
        self._trouble: Trouble | None = None
        self._first = 0
        if options.sort is not None:
            self._sorts[options.view] = options.sort

    def take(self, view: View, found: Reading | Exception) -> None:
        """An answer has come, or a failure. Raises what is a mistake of ours."""
        now = datetime.now().astimezone()
        if isinstance(found, NoAnswerError):
            since = self._trouble or Trouble("", time.monotonic(), now)
            self._trouble = since._replace(text=str(found))
            return
        if isinstance(found, Exception):
            raise found
        self._trouble = None
        self._readings[view] = kept(self._readings[view], found)
        self._at[view] = now

    def press(self, key: str, rows: int) -> bool:
        """False: it is over. rows: how many rows have room."""
        count = len(self._newest.names) if self._newest else 0
        if key in VIEW_KEYS and VIEW_KEYS[key] is not self.view:
            self.view, self._first, self._trouble = VIEW_KEYS[key], 0, None
        elif SORT_KEYS.get(key) in SORTS[self.view]:
            self._sorts[self.view] = SORT_KEYS[key]
        elif key in _STEPS or key in _PAGES:
            steps = _STEPS.get(key, 0) + _PAGES.get(key, 0) * rows
            self._first = max(0, min(self._first + steps, count - rows))
        elif key in _FIRST:
            self._first = 0
        return key != _QUIT

    @property
    def shown(self) -> Shown:
        """All of it."""
        count = len(self._newest.names) if self._newest else 0
        first = min(self._first, max(0, count - 1))  # there may be fewer by now
        return Shown(
            self._options.url, self.view, self._sorts[self.view], self._options.interval_s,
            self._readings[self.view], self._at.get(self.view), self._trouble, first,
        )  # fmt: skip

    @property
    def _newest(self) -> Reading | None:
        readings = self._readings[self.view]
        return readings[-1] if readings else None


def run_live(options: Options, poll: Poll, style: Style) -> None:
    """Until q, ctrl-c, SIGTERM, or the terminal's end. poll: raises NoAnswerError."""
    session = Session(options)
    with Screen() as screen:
        asking = _Asking(poll, session.view, options.interval_s, screen.wake)
        asking.start()
        while True:
            room = screen.room
            now = datetime.now().astimezone()
            screen.draw(frame(session.shown, room, style, now, time.monotonic()))
            happened = screen.wait(_TICK_S)
            if happened.is_over:
                return
            view = session.view
            if not all(session.press(key, rows_in(session.shown, room)) for key in happened.keys):
                return
            if session.view is not view:
                asking.want(session.view)
            _take_all(asking.answers, session)


def _take_all(answers: "SimpleQueue[_Answer]", session: Session) -> None:
    while True:
        try:
            answer = answers.get_nowait()
        except Empty:
            return
        session.take(*answer)
