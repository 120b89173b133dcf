"""What it costs to read a PDF: the processor's time of the process that does it, from its start on."""

import json
import os
import subprocess  # noqa: TID251 - the processor time of this one process is measured
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from row import Row, medians, row

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.pdf_files import pdf_of

PAGES = 400
LINES = 40
"""Lines on a page, as many as a page of a manual has."""
WORDS = "install the server before its first start and set each option of this table to the value that your network has"
IMPORT = "import scaffold.memory.documents.library"
IMPORT_LIMIT_S = 0.15
SECOND = 1.0
REQUEST = {
    "pages": [[1, None]],
    "most_pages": PAGES,
    "seconds": 60,
    "page_chars": 200_000,
    "headings": True,
    "cpu_s": 60,
    "memory_bytes": 1 << 30,
}


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: 400 pages against a second of the processor's time, and the import of what stores documents."""
    if find_spec("pypdfium2") is None:
        sys.stderr.write("pdf-pages: skipped, the extra `documents` is not installed\n")
        return
    rounds = 1 if quick else 5
    page = "\n".join(f"{number} {WORDS}"[:85] for number in range(LINES))
    with tempfile.TemporaryFile() as file:
        file.write(pdf_of([f"Page {number}\n{page}" for number in range(1, PAGES + 1)], outline={"All": 1}))
        program = ["-I", "-m", "scaffold.memory.documents.pdfium_child", json.dumps(REQUEST)]
        (read_s,) = medians(rounds, lambda: _cpu_s(program, file.fileno()))
    yield row(f"pdf-{PAGES}-pages-cpu", read_s, SECOND, unit="s", goal=1.0)
    bare_s, import_s = medians(
        rounds, lambda: _cpu_s(["-c", "pass"], file=None), lambda: _cpu_s(["-c", IMPORT], file=None)
    )
    yield row("documents-import-cpu", import_s - bare_s, IMPORT_LIMIT_S, unit="s", goal=1.0)


def _cpu_s(args: list[str], file: int | None) -> float:
    """Return the processor's time that a Python takes with these arguments."""
    if file is not None:
        os.lseek(file, 0, os.SEEK_SET)
    child = subprocess.Popen([sys.executable, *args], stdin=file, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{args} exited with {child.returncode}")
    return used.ru_utime + used.ru_stime
