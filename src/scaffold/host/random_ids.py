"""Short random identifiers."""

import os

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LETTERS_AND_DIGITS = f"{LETTERS}0123456789"


def new_id(length: int = 8) -> str:
    """Return `length` random lower-case letters and digits, starting with a letter; safe in paths and refs."""
    letters = (LETTERS, *[LETTERS_AND_DIGITS] * (length - 1))
    return "".join(each[random_below(len(each))] for each in letters)


def random_below(limit: int) -> int:
    """Return a random number from 0 up to `limit`, which it never is; as `secrets` does, which takes long to load."""
    return int.from_bytes(os.urandom(16), "big") % limit
