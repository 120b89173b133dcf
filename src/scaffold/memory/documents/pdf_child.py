"""What the programs have in common that read the PDF on their standard input and print it as JSON lines.

Each runs in a process of its own, in a sandbox: a file may be made to crash the library, to exhaust it, or to take it
over. They therefore import nothing else of ours, and what they say is not trusted. Their argument is the request.
"""

import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

_LINE_END = re.compile(r"\r\n?")
_DIVIDED = re.compile("[\x02\ufffe]\n?|\u00ad\n")
"""What stands for the hyphen of a word that is divided at the end of a line."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")


def serve(reading: Callable[[BinaryIO, Mapping[str, Any]], Iterator[Mapping[str, Any]]]) -> None:
    """Print the number of pages, then each page, then that this is the end."""
    request = json.loads(sys.argv[1])
    _limit_resources(request)
    with open(0, "rb", closefd=False) as file:
        for part in reading(file, request):
            # One write for each line, so that all that was read before a crash is known.
            sys.stdout.buffer.write(json.dumps(part).encode() + b"\n")
            sys.stdout.buffer.flush()
    # Libraries may take long to clean up, or crash at it.
    os._exit(0)


def _limit_resources(request: Mapping[str, Any]) -> None:
    seconds, memory = int(request["cpu_s"]), int(request["memory_bytes"])
    limits = {
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 64,
    }
    for kind, value in limits.items():
        with suppress(ValueError, OSError):  # a lower one is set already, or the system has no such limit
            resource.setrlimit(kind, (value, value))


def numbers(request: Mapping[str, Any], total: int) -> Iterator[int]:
    """Yield the wanted pages until enough is read: the caller asks for the others with another request."""
    until, count = time.monotonic() + request["seconds"], 0
    for first, last in request["pages"]:
        for number in range(first, min(last or total, total) + 1):
            if count >= request["most_pages"] or (count and time.monotonic() > until):
                return
            count += 1
            yield number


def page_line(number: int, text: str, request: Mapping[str, Any], *, images: bool) -> Mapping[str, Any]:
    """Return what is said of a page."""
    most = request["page_chars"]
    return {"page": number, "text": text[:most], "chars": len(text), "images": images}


def plain(text: str) -> str:
    """Return text as it can be stored: with one kind of line end, no divided words and no control characters."""
    lines = _DIVIDED.sub("", _LINE_END.sub("\n", text)).replace("\u00ad", "-")
    return _CONTROL.sub("", lines).encode("utf-8", "ignore").decode().strip()
