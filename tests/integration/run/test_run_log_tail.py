"""What a process printed before it died, as the store and people get to read it."""

import pytest

from scaffold.core.ids import RunId
from scaffold.run.context import LOG_TAIL_BYTES, LOG_TAIL_CHARS

RUN = RunId("r1")
SECRET = "correct-horse-battery-staple"


@pytest.fixture
def log(harness):
    harness.site.environ["SHOP_API_KEY"] = SECRET
    path = harness.site.process_log(RUN, "a1")
    path.parent.mkdir(parents=True)
    return path


async def test_the_last_words_of_a_process_hold_no_secret(harness, log):
    """BX-9: secrets are told to nobody; one at the edge of what is kept is not told in half."""
    log.write_text(f"{'x' * 500}{SECRET}{'y' * (LOG_TAIL_CHARS - 10)}\n")
    words = harness.site.log_tail(RUN, "a1")
    assert (len(words), "staple" in words) == (LOG_TAIL_CHARS, False)
    assert words.endswith("y" * (LOG_TAIL_CHARS - 10))


async def test_of_a_flood_no_more_than_its_end_is_read(harness, log):
    log.write_bytes(b"\xff" * LOG_TAIL_BYTES * 3 + b"MemoryError\n")
    assert harness.site.log_tail(RUN, "a1").endswith("MemoryError")


async def test_a_process_that_printed_nothing_has_no_last_words(harness):
    assert harness.site.log_tail(RUN, "a2") == ""
