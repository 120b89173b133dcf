"""The reason why a merge is left to the next, more costly way."""


class NotMergeable(Exception):
    """Both sides change the same, or a version has a form that this merge does not take apart; the text says which."""
