"""Failures as they recur: the same one has the same fingerprint, whatever the times, addresses and folders."""

import hashlib
import re

MAX_CHARS = 20_000
_VARYING = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{7,64}\b|\d+(?:[.,:]\d+)*")
_FOLDERS = re.compile(r"(?:/[\w.@+-]+)+/(?=[\w.@+-])")


def failure_fingerprint(text: str) -> str:
    """Return the fingerprint of what a failure showed; empty without text.

    Numbers, hashes, the folders of absolute paths and white space do not count.
    """
    same = " ".join(_VARYING.sub("#", _FOLDERS.sub("/", text[:MAX_CHARS].casefold())).split())
    return hashlib.sha256(same.encode(errors="replace")).hexdigest()[:16] if same else ""
