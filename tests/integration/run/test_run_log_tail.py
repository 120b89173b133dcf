"""The output of a process before it died, as the store and the user see it."""

import pytest

from scaffold.core.ids import RunId
from scaffold.run.context import LOG_TAIL_BYTES, LOG_TAIL_CHARS

RUN = RunId("r1")
SECRET = "correct-horse-battery-staple"


@pytest.fixture
def log(harness):
    harness.context.environ["SHOP_API_KEY"] = SECRET
    path = harness.context.process_log(RUN, "a1")
    path.parent.mkdir(parents=True)
    return path


async def test_the_log_tail_contains_no_secret(harness, log):
    """BX-9: secrets are shown to no one; one at the edge of the tail is not shown in half."""
    log.write_text(f"{'x' * 500}{SECRET}{'y' * (LOG_TAIL_CHARS - 10)}\n")
    words = harness.context.log_tail(RUN, "a1")
    assert (len(words), "staple" in words) == (LOG_TAIL_CHARS, False)
    assert words.endswith("y" * (LOG_TAIL_CHARS - 10))


async def test_of_a_long_log_only_the_end_is_read(harness, log):
    log.write_bytes(b"\xff" * LOG_TAIL_BYTES * 3 + b"MemoryError\n")
    assert harness.context.log_tail(RUN, "a1").endswith("MemoryError")
    assert harness.context.log_tail(RUN, "a2") == "", "of a process that was silent"
