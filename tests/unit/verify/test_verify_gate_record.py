"""The record kept inside pytest and unittest, signed so that no change goes unnoticed."""

import inspect
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from inline_snapshot import snapshot

from scaffold.verify.gates.injected.scaffold_recorder import RECORD, derived, message_of, open_record
from scaffold.verify.gates.reports.signed_record import judge_record, read_record

KEY = b"k" * 32


@pytest.fixture
def opened(tmp_path):
    """Open records; their files are closed at the end, as otherwise by the end of the program that is tested."""
    notes = []

    def open_one(*given):
        notes.append(open_record(str(tmp_path), *given))
        return notes[-1]

    yield open_one
    for each in notes:
        os.close(inspect.getclosurevars(each).nonlocals["descriptor"])


@pytest.fixture
def note(opened):
    return opened(KEY)


def write_whole(note, *, said="passed", canary="failed", raised=True):
    note("collected", ["test_a"])
    note("start", "test_a")
    note("outcome", "test_a", "call", said, False)
    note("canary", "ours", False, [["call", "passed", False]])
    note("canary", "ours too", raised, [["setup", "passed", False], ["call", canary, False]])
    note("end", 0)


def judged(tmp_path, exit_code=0):
    lines = read_record(tmp_path, KEY)
    assert not isinstance(lines, str), lines
    return judge_record(lines, exit_code, whole=True)


def test_a_record_is_read_back(tmp_path, note):
    write_whole(note)
    assert judged(tmp_path).outcomes == {"test_a": "passed"}


def test_a_record_with_foreign_content_is_rejected(tmp_path, note):
    """BX-4: a report that cannot be trusted is an error."""
    write_whole(note)
    path = tmp_path / RECORD
    text = path.read_bytes()
    lines = text.splitlines(keepends=True)
    changed = [
        text.replace(b'"failed"', b'"passed"'),
        b"".join(lines[1:]),
        b"".join(reversed(lines)),
        text + lines[-1],
        text + b'["end",0]\n',
        b"\0" * 100 + text,
        b"garbage\n",
        b"\n" + text,
    ]
    for content in changed:
        path.write_bytes(content)
        assert isinstance(read_record(tmp_path, KEY), str), content


def test_a_record_that_is_emptied_or_lengthened_while_it_is_written_is_rejected(tmp_path):
    """BX-4: the writer goes on, and asks the file how much of it is there."""
    for number, content in enumerate((b"", b"x", b"x" * 10_000)):
        folder = tmp_path / str(number)
        folder.mkdir()
        note = open_record(str(folder), KEY)
        note("collected", ["test_a"])
        (folder / RECORD).write_bytes(content)
        write_whole(note)
        os.close(inspect.getclosurevars(note).nonlocals["descriptor"])
        assert isinstance(read_record(folder, KEY), str), content


def test_a_truncated_record_is_rejected(tmp_path, note):
    """BX-4: a report without its end is none, wherever it was cut."""
    write_whole(note)
    path = tmp_path / RECORD
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in range(len(lines)):
        path.write_bytes(b"".join(lines[:kept]) + b"half a li")
        assert judged(tmp_path).problem == "error", kept


def test_a_record_with_a_wrong_or_missing_key_is_rejected(tmp_path, note):
    assert read_record(tmp_path / "nowhere", KEY) == snapshot(
        "The recorder wrote no usable record: the file is missing."
    )
    write_whole(note)
    assert read_record(tmp_path, b"x" * 32) == snapshot(
        "The test runner's report cannot be trusted: other code wrote to the record."
    )


def test_workers_have_their_own_records_and_keys(tmp_path, note, opened):
    note("outcome", "test_a", "call", "passed", False)
    note("end", 0)
    worker = derived(derived(KEY, "workers"), f"{RECORD}-gw0")
    write_whole(opened(worker, f"{RECORD}-gw0"))
    assert judged(tmp_path).outcomes == {"test_a": "passed"}
    (tmp_path / f"{RECORD}-gw1").write_bytes((tmp_path / f"{RECORD}-gw0").read_bytes())
    assert isinstance(read_record(tmp_path, KEY), str)


@pytest.mark.parametrize(
    ("raised", "canary"), [(True, "passed"), (True, "skipped"), (False, "passed"), (False, "failed")]
)
def test_the_canary_test_must_fail_and_be_reported_as_failed(tmp_path, note, raised, canary):
    """BX-4: a runner that reports every test as passed is not believed."""
    write_whole(note, raised=raised, canary=canary)
    assert judged(tmp_path).problem == "error"


def test_without_canary_tests_nothing_is_believed_and_a_failing_fixture_is_allowed(tmp_path, note):
    note("collected", ["test_a"])
    note("outcome", "test_a", "call", "passed", False)
    note("end", 0)
    assert judged(tmp_path).problem == "error"
    for name in ("ours", "ours too"):
        note("canary", name, False, [["setup", "failed", False], ["teardown", "passed", False]])
    note("end", 0)
    assert judged(tmp_path).problem is None


def test_a_test_that_raised_has_failed_unless_it_was_repeated(tmp_path, note):
    note("raised", "test_a", True)
    write_whole(note)
    assert judged(tmp_path, 1).outcomes == {"test_a": "failed"}
    note("raised", "test_a", False)
    assert judged(tmp_path).outcomes == {"test_a": "passed"}


def test_collected_tests_that_never_ran_are_missed(tmp_path, note):
    """BX-4: a report that names fewer tests than were collected is an error."""
    note("collected", ["test_a", "test_b"])
    write_whole(note)
    assert "test_b" in judged(tmp_path).why


def test_an_internal_error_of_the_runner_is_an_error(tmp_path, note):
    write_whole(note)
    assert [judged(tmp_path, code).problem for code in (2, 3, 4, None)] == ["error"] * 4


def interrupted(note, after, *fields):
    """Write a note, and raise in it once so many of its instructions ran; return whether it ended before that."""
    left = after

    def count(frame, event, _):
        nonlocal left
        if frame.f_code is not note.__code__:
            return None
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left < 0:
            raise TimeoutError
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        note(*fields)
    except TimeoutError:
        return False
    finally:
        sys.settrace(before)
    return True


def test_a_note_that_is_interrupted_anywhere_spoils_no_other_one(tmp_path, opened):
    """BX-4: a test's limit of time may raise within our hooks; nobody is accused of having written to the record."""
    for after in range(10_000):
        name = f"{RECORD}-{after}"
        note = opened(derived(derived(KEY, "workers"), name), name)
        ended = interrupted(note, after, "start", "test_a")
        note("outcome", "test_a", "call", "passed", False)
        if ended:
            break
    opened(KEY)("end", 0)
    lines = read_record(tmp_path, KEY)
    assert not isinstance(lines, str), lines
    assert after > 20
    outcomes = [line for line in lines if type(line).__name__ == "ReportLine"]
    assert len(outcomes) == after + 1


def test_notes_of_several_threads_do_not_mix(tmp_path, note):
    """BX-4: plugins run tests in threads; lines of more than 2,047 bytes are hashed while another thread runs."""
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: note("said", f"test_{number}", str(number) * 2_000), range(400)))
    lines = read_record(tmp_path, KEY)
    assert {line.name for line in lines} == {f"test_{number}" for number in range(400)}, lines


def test_a_message_with_half_a_character_is_read(tmp_path, note):
    """BX-4: a failure may quote the name of a file that is no UTF-8."""
    note("said", "test_a", message_of(os.fsdecode(b"caf\xe9 \xc3\xa9")))
    lines = read_record(tmp_path, KEY)
    assert [line.text for line in lines] == ["caf? é"]
