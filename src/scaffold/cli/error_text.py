"""Error texts and tracebacks without the secrets that they may quote."""

import os
import traceback
from pathlib import Path

from scaffold.policy.secret.sources import redactor_for


def redact(text: str) -> str:
    """Return `text` without the secrets of this process, the current folder and the user."""
    try:
        folder = Path.cwd()
    except OSError:  # it was deleted
        folder = Path(os.devnull)
    return redactor_for(os.environ, folder).clean(text)


def redacted_traceback(error: Exception) -> str:
    """Return the traceback of an error without secrets."""
    return redact("".join(traceback.format_exception(error)))
