"""Short random identifiers."""

import secrets
import string

LETTERS = string.ascii_lowercase
LETTERS_AND_DIGITS = LETTERS + string.digits


def new_id(length: int = 8) -> str:
    """Return `length` random lower-case letters and digits, starting with a letter; safe in paths and refs."""
    return secrets.choice(LETTERS) + "".join(secrets.choice(LETTERS_AND_DIGITS) for _ in range(length - 1))
