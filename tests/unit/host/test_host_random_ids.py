"""Identifiers."""

import re

from scaffold.host.random_ids import new_id


def test_ids_are_lower_case_letters_and_digits_of_the_requested_length_and_differ():
    assert re.fullmatch(r"[a-z][a-z0-9]{7}", new_id())
    ids = {new_id(12) for _ in range(1000)}
    assert len(ids) == 1000
    assert [one for one in ids if not re.fullmatch(r"[a-z][a-z0-9]{11}", one)] == []
