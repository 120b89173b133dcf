"""What went wrong, told without the secrets it may quote: a key in an address or a header, a line of a file."""

import os
import traceback
from pathlib import Path

from scaffold.policy.secret.sources import redactor_for


def redact(text: str) -> str:
    """Return `text` without secrets of this process, of the current folder and of the user."""
    try:
        folder = Path.cwd()
    except OSError:  # it is gone, with whatever was secret in it
        folder = Path(os.devnull)
    return redactor_for(os.environ, folder).clean(text)


def redacted_traceback(error: Exception) -> str:
    """Return the traceback of an error in the same way."""
    return redact("".join(traceback.format_exception(error)))
