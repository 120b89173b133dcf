"""Why a merge is left to the next, more expensive step of the ladder."""


class NotMergeable(Exception):
    """Both sides change the same thing, or a version cannot be parsed by this merge; the text says which."""
