"""Identifiers."""

import re

from scaffold.host.random_ids import new_id


def test_ids_are_lower_case_letters_and_digits_that_start_with_a_letter():
    assert all(re.fullmatch(r"[a-z][a-z0-9]{7}", new_id()) for _ in range(500))


def test_ids_have_the_requested_length_and_differ():
    ids = {new_id(12) for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(one) for one in ids} == {12}
