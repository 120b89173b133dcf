"""The places of a merge queue, as they are stored."""

import msgspec

from scaffold.core.landing.queue_place import QueuePlace


def test_a_place_is_read_as_it_was_written():
    """BX-6: a candidate that waits has no lane, and may conflict with others."""
    place = QueuePlace(attempt_id="a1", state="waiting", waits_for=("b",), conflicts={"b": ("list",)})
    assert place.lane is None
    assert msgspec.json.decode(msgspec.json.encode(place), type=QueuePlace) == place
