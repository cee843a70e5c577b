"""The journal over files that something has damaged, deleted or replaced."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest

from headgate.spool.carve import _Claim, _numbers, read_log
from headgate.spool.database import FILE, JournalDamagedError, JournalError, JournalGoneError
from headgate.spool.journal import Journal, salvage
from headgate.spool.reading import Reader
from support.spool.damage import LOG, PAGE, append, break_page, fill, overwrite, pages_of
from support.spool.database import database_of

LOTS = (10**9, 10**12)


def numbers(contents: Reader) -> list[int]:
    """Of the events that can be read."""
    found = [event for *_, event in contents.events() if event is not None]
    return [int((event[1] or b"").split(b":")[0]) for event in found]


def killed(folder: Path, to: Path) -> Path:
    """What a journal that is open would leave behind if it were killed now."""
    shutil.copytree(folder, to)
    return to


# ---- pages


def test_of_a_file_with_a_damaged_page_all_others_can_be_read(tmp_path: Path) -> None:
    fill(tmp_path, 300, 500)
    leaves = pages_of(tmp_path, "chunks", 13)
    assert len(leaves) > 20
    break_page(tmp_path, leaves[10])
    contents = Reader(tmp_path)
    found = numbers(contents)
    [gap] = contents.gaps
    assert gap.last is not None
    lost = gap.last - gap.first + 1
    assert 1 < lost < 12
    assert sorted(found) == [n for n in range(300) if not gap.first <= n + 1 <= gap.last]
    assert contents.missing == [("orders", 0)] * lost
    contents.close()


def test_what_can_be_read_of_a_damaged_file_is_taken_over_in_order(tmp_path: Path) -> None:
    old = tmp_path / "old"
    fill(old, 300, 500)
    break_page(old, pages_of(old, "chunks", 13)[10])
    with database_of(old) as database:
        database.execute("UPDATE chunks SET at_ms = 0 WHERE number = 1")
    database.close()
    journal = Journal(tmp_path / "new")
    found = salvage(old, journal)
    read = journal.read("orders", 0, 0, None, *LOTS)
    assert [one.number for one in read] == sorted(one.number for one in read)
    assert found.events == len(read)
    assert found.events + sum(events for _, events in found.aside) == 300
    assert {one.reason.split()[0] for one in journal.contents.aside()} == {"damaged", "its"}
    assert found.is_complete  # the index has the others
    [(later, _)] = journal.commit([append(300)], [])
    assert later > max(one.number for one in read)
    journal.close()


@pytest.mark.parametrize("page", [1, 2, 3, 4, 5, 6, 7, 8])
def test_whatever_page_is_damaged_what_is_taken_over_is_what_was_written(
    tmp_path: Path, page: int
) -> None:
    old = tmp_path / "old"
    fill(old, 300, 500)
    break_page(old, page)
    journal = Journal(tmp_path / "new")
    found = salvage(old, journal)
    read = journal.read("orders", 0, 0, None, *LOTS)
    for one in read:
        assert one.packed is not None
        [(_, value, _, _)] = one.packed
        assert value == append(one.number - 1, 500).records[0].value
    if found.is_complete:
        assert len(read) + sum(events for _, events in found.aside) == 300
    journal.close()


def test_a_row_that_says_another_partition_is_not_published_there(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    with database_of(tmp_path) as database:
        database.execute("UPDATE chunks SET partitions = 7 WHERE number = 2")
    database.close()
    journal = Journal(tmp_path)
    found = journal.read("orders", 0, 1, None, *LOTS)
    assert found[0].packed is None
    journal.close()


def test_what_comes_before_a_damaged_page_is_read(tmp_path: Path) -> None:
    fill(tmp_path, 300, 500)
    break_page(tmp_path, pages_of(tmp_path, "chunks", 13)[10])
    journal = Journal(tmp_path)
    read = journal.read("orders", 0, 0, None, *LOTS)
    assert read
    with pytest.raises(JournalDamagedError):
        journal.read("orders", 0, read[-1].number, None, *LOTS)
    journal.close()


# ---- the log


def with_log(folder: Path, commits: int) -> Path:
    """What a kill leaves behind that many commits, none of which is in the database file."""
    journal = Journal(folder / "open")
    for number in range(commits):
        journal.commit([append(number)], [])
    left = killed(folder / "open", folder / "left")
    journal.close()
    return left


def test_a_log_that_a_kill_left_is_whole(tmp_path: Path) -> None:
    left = with_log(tmp_path, 20)
    assert not read_log(left / LOG).is_damaged
    with closing(Reader(left)) as contents:
        assert len(numbers(contents)) == 20


def test_a_commit_that_a_loss_of_power_cut_short_is_no_damage(tmp_path: Path) -> None:
    left = with_log(tmp_path, 20)
    size = (left / LOG).stat().st_size
    for cut in (1, 100, PAGE, PAGE + 24, 2 * PAGE + 24):
        with (left / LOG).open("r+b") as file:
            file.truncate(size - cut)
        assert not read_log(left / LOG).is_damaged
    Journal(left).close()
    with closing(Reader(left)) as contents:
        assert len(numbers(contents)) == 19


def test_a_log_that_begins_again_over_an_older_one_is_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "open")
    for number in range(100):
        journal.commit([append(number, 3000)], [])
    journal._database.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    journal.commit([append(100)], [])
    left = killed(tmp_path / "open", tmp_path / "left")
    journal.close()
    assert not read_log(left / LOG).is_damaged
    with closing(Reader(left)) as contents:
        assert len(numbers(contents)) == 101


@pytest.mark.parametrize("at", [0, 8, 32 + 4, 32 + 100, 32 + 10 * (PAGE + 24) + 500])
def test_a_log_with_a_byte_changed_is_said_to_be_damaged(tmp_path: Path, at: int) -> None:
    left = with_log(tmp_path, 20)
    raw = (left / LOG).read_bytes()
    overwrite(left / LOG, at, bytes([raw[at] ^ 0x55]))
    with pytest.raises(JournalDamagedError, match="damaged"):
        Journal(left)


@pytest.mark.parametrize("frame", [0, 7, -3, -1])
def test_a_frame_whose_page_cannot_be_takes_no_time_and_is_no_reason_to_lose_others(
    tmp_path: Path, frame: int
) -> None:
    left = with_log(tmp_path, 20)
    frames = ((left / LOG).stat().st_size - 32) // (PAGE + 24)
    overwrite(left / LOG, 32 + frame % frames * (PAGE + 24), b"\x43")  # page 1,124,073,472 and more
    with pytest.raises(JournalDamagedError):
        Journal(left)
    journal = Journal(tmp_path / "new")
    found = salvage(left, journal)
    read = journal.read("orders", 0, 0, None, *LOTS)
    assert [one.number for one in read] == list(range(1, len(read) + 1))
    assert len(read) >= 19
    assert not found.is_complete
    journal.close()


def test_a_log_without_its_file_is_said_to_be_damage_and_not_thrown_away(tmp_path: Path) -> None:
    left = with_log(tmp_path, 20)
    (left / FILE).unlink()
    with pytest.raises(JournalDamagedError, match="missing"):
        Journal(left)
    assert (left / LOG).stat().st_size


@pytest.mark.timeout(120)
def test_many_lost_chunks_cost_no_time_for_each_damaged_number() -> None:
    lane, most = ("orders", 0), 20_000
    pages = [
        [
            _Claim(3 * page + 1, lane, (page, 0, 0)),
            _Claim(10**9 + page, lane, (page, 1, 0)),  # its number is damaged
            _Claim(3 * page + 3, lane, (page, 2, 0)),
        ]
        for page in range(most)
    ]
    lost = range(10**6, 10**6 + most)  # the index has these numbers, and no page
    indexed = {
        number: lane for number in range(1, 3 * most + 1) if number % 3 != 2
    } | dict.fromkeys(lost, lane)
    assert _numbers(pages, indexed)[1] == [4, None, 6]
    assert _numbers(pages, indexed | {5: lane})[1] == [4, 5, 6]


# ---- files that go


@pytest.mark.parametrize("name", [FILE, LOG, "lock"])
@pytest.mark.parametrize("is_replaced", [True, False])
def test_nothing_is_taken_once_a_file_is_not_there_any_more(
    tmp_path: Path, name: str, is_replaced: bool
) -> None:
    folder = tmp_path / "spool"
    journal = Journal(folder)
    [(number, _)] = journal.commit([append(1)], [])
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    if is_replaced:
        (folder / "new").write_bytes(content)
        (folder / "new").rename(folder / name)
    with pytest.raises(JournalGoneError, match=name) as caught:
        journal.commit([append(2)], [])
    assert caught.value.is_certain
    assert len(journal.read("orders", 0, 0, None, *LOTS)) == 1  # it can still be published
    journal.commit([], [number])
    journal.close()
    assert (folder / name).exists() == is_replaced


def test_a_folder_that_is_removed_takes_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "spool")
    shutil.rmtree(tmp_path / "spool")
    with pytest.raises(JournalGoneError):
        journal.commit([append(1)], [])
    journal.close()


def test_a_file_that_goes_during_the_commit_leaves_it_open_whether_it_is_there(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path)
    done = journal._database.set_trace_callback

    def seen(statement: str) -> None:
        if statement == "COMMIT":
            (tmp_path / FILE).unlink()

    done(seen)
    with pytest.raises(JournalGoneError) as caught:
        journal.commit([append(1)], [])
    assert not caught.value.is_certain
    done(None)
    journal.close()


def test_a_file_that_went_while_nobody_looked_is_missed(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    for name in (FILE, LOG):
        (tmp_path / name).unlink(missing_ok=True)
    journal = Journal(tmp_path)
    assert journal.is_missing
    journal.close()
    again = Journal(tmp_path)
    assert not again.is_missing
    again.close()


# ---- made well


def test_others_may_not_read_it_though_the_folder_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir(mode=0o755)
    journal = Journal(folder)
    journal.commit([append(1)], [])
    modes = {one.name: one.stat().st_mode & 0o007 for one in folder.iterdir()}
    assert modes.keys() >= {FILE, LOG, "lock"}
    assert set(modes.values()) == {0}
    journal.close()


def test_a_file_that_others_could_read_is_kept_from_them(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    (tmp_path / FILE).chmod(0o664)
    Journal(tmp_path).close()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o660


def test_a_link_to_the_folder_is_as_good_and_locks_the_same(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir()
    journal = Journal(tmp_path / "link")
    with pytest.raises(JournalError, match="another process"):
        Journal(tmp_path / "real")
    journal.commit([append(1)], [])
    (tmp_path / "other").mkdir()
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "other")
    with pytest.raises(JournalGoneError):
        journal.commit([append(2)], [])
    journal.close()


def test_its_tables_are_made_all_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    left = killed(tmp_path, tmp_path / "left")
    journal.close()
    size = (left / LOG).stat().st_size
    frames = range(32, size, PAGE + 24)
    for cut in frames:  # killed after so much of it
        copy = killed(left, tmp_path / f"cut-{cut}")
        with (copy / LOG).open("r+b") as file:
            file.truncate(cut)
        Journal(copy).close()


# ---- versions


def test_a_file_of_another_version_is_neither_moved_nor_used(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    with database_of(tmp_path) as database:
        [[mark]] = database.execute("PRAGMA application_id")
        database.execute("PRAGMA user_version = 99")
        database.execute(f"PRAGMA application_id = {mark + 97}")
    database.close()
    with pytest.raises(JournalError, match="version is 99") as caught:
        Journal(tmp_path)
    assert not isinstance(caught.value, JournalDamagedError)


def test_a_file_of_the_first_version_is_taken_on(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    with database_of(tmp_path) as database:
        rows = database.execute("SELECT number, events FROM chunks").fetchall()
        for number, events in rows:
            checksum = crc32(events) + (number == 3)  # one of them is damaged
            database.execute("UPDATE chunks SET checksum = ? WHERE number = ?", (checksum, number))
        database.execute("PRAGMA user_version = 1")
        database.execute("PRAGMA application_id = 0")
    database.close()
    journal = Journal(tmp_path)
    read = journal.read("orders", 0, 0, None, *LOTS)
    assert [one.number for one in read if one.packed is None] == [3]
    journal.close()
    Journal(tmp_path).close()
