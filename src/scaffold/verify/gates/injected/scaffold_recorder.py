"""Record what a test runner does, from inside its process, so that tampering is detected.

Each line is signed with a key and all previous lines. The key is removed from disk and environment before any project
code runs; the process keeps only the state of the hash.
"""

import builtins
import errno
import hashlib
import json
import os
from _thread import RLock
from typing import Any, Callable  # noqa: UP035 - that of collections.abc has no parameters before 3.9

FOLDER_VARIABLE = "SCAFFOLD_RECORDER"
"""The environment variable with the folder of the order file."""
ORDER = "order"
RECORD = "record"
LONGEST_NAME = 300
KEPT_OF_A_NAME = 200
LONGEST_PATH = 4_096
LONGEST_MESSAGE = 2_000
PART = " > "
"""Between the name of a test and of its part."""
MOST_ROUNDS = 20
"""How often a test runs in one process, if tests are to be repeated in it."""
MOST_ERRORS = 5
MOST_EXCEPTIONS = 50
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)

Note = Callable[..., None]

# Read by these, a subclass's own properties do not run.
_CAUSE, _CONTEXT = (vars(BaseException)[name].__get__ for name in ("__cause__", "__context__"))
_ERRNO, _FILENAME, _FILENAME2 = (vars(OSError)[name].__get__ for name in ("errno", "filename", "filename2"))
_GROUP: Any = getattr(builtins, "BaseExceptionGroup", None)
_MEMBERS: Any = vars(_GROUP)["exceptions"].__get__ if _GROUP else None


def take_order() -> "dict[str, Any] | None":
    """Return the order and remove all traces of it, or return None."""
    folder = os.environ.pop(FOLDER_VARIABLE, None)
    if folder is None:
        return None
    path = os.path.join(folder, ORDER)  # noqa: PTH118 - few imports: what is imported here is not imported by the project
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            order: dict[str, Any] = json.load(file)
        # Together with the variable, this was the only copy of the key outside this process.
        os.unlink(path)  # noqa: PTH108
    except OSError:
        return None
    restore(order["environ"])
    return {**order, "folder": folder, "key": bytes.fromhex(order["key"])}


def restore(environ: "dict[str, Any]") -> None:
    """Restore the variables to their values before our run; None removes a variable."""
    for name, value in environ.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def derived(key: bytes, name: str) -> bytes:
    """Return a derived key for another process of the same run."""
    return hashlib.blake2b(name.encode(), key=key, digest_size=32).digest()


def open_record(folder: str, key: bytes, name: str = RECORD) -> Note:
    """Return the function `note(kind, field, ...)`, which writes a line of a new record; it does nothing in a fork."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(os.path.join(folder, name), flags, 0o600)  # noqa: PTH118
    # Bound now, because code under test may replace these functions in their modules.
    write, process, encode, status = os.write, os.getpid, json.JSONEncoder(ensure_ascii=False).encode, os.fstat
    owner, one_at_a_time = process(), RLock()
    # One value, because a signal's handler may raise at any point, as tests with a limit of time do: the hash of all
    # lines, how many bytes are written, and the bytes to write next.
    state = (hashlib.blake2b(key=key, digest_size=16), 0, b"")

    def note(*fields: object) -> None:
        nonlocal state
        # A fork shares the descriptor; its lines would break the chain of signatures.
        if process() != owner:
            return
        # Half a character, as of a file name that is no UTF-8, is no text for the reader.
        line = encode(fields).encode(errors="replace")
        with one_at_a_time:
            seal, begin, rest = state
            # The state of the hash moves on with each line, so no line can be signed again, removed or put elsewhere.
            seal = seal.copy()
            seal.update(line)
            state = seal, begin, rest + seal.hexdigest().encode() + b" " + line + b"\n"
            # A write may be shorter than asked for, or fail, or be interrupted: the file says how much of it is there.
            while True:
                seal, begin, rest = state
                written = status(descriptor).st_size - begin
                # Fewer bytes than before are no work of ours: what follows will not fit what is left.
                if written < 0 or not rest[written:]:
                    break
                write(descriptor, rest[written:])
            state = seal, begin + written, b""

    return note


def system_errors(raised: "BaseException | None") -> "list[tuple[int, str | None, bool]]":
    """Return (errno, path, whether a host name was resolved) of the system's errors behind an exception, at most 5."""
    found: list[tuple[int, str | None, bool]] = []
    seen: set[int] = set()
    left: list[Any] = [raised]
    while left and len(seen) < MOST_EXCEPTIONS:
        each = left.pop(0)
        # By the type, because `isinstance` also asks the exception itself, by its `__class__`.
        kind = type(each)
        if not issubclass(kind, BaseException) or id(each) in seen:
            continue
        seen.add(id(each))
        if issubclass(kind, OSError) and len(found) < MOST_ERRORS:
            found += _system_error(each)
        left += [_CAUSE(each), _CONTEXT(each)]
        if _GROUP and issubclass(kind, _GROUP):
            left += _MEMBERS(each)
    return found


def _system_error(error: OSError) -> "list[tuple[int, str | None, bool]]":
    number, second = _ERRNO(error), _path_text(_FILENAME2(error))
    if type(number) is not int:
        return []
    found = [(number, _path_text(_FILENAME(error)), type(error).__name__ == "gaierror")]
    # Either path of a link or rename may be denied; only the first one can be missing.
    return [*found, (number, second, False)] if second and number in DENIED else found


def _path_text(path: object) -> "str | None":
    """Return a path as printable text, or None for another value."""
    text = os.fsdecode(path) if type(path) is bytes else path
    if type(text) is not str:
        return None
    return (text if text.isprintable() else ascii(text)[1:-1])[:LONGEST_PATH]


def message_of(text: object) -> str:
    """Return the message of a failure, of limited length; empty if it is not text."""
    return text[:LONGEST_MESSAGE] if type(text) is str else ""


def name_of_part(name: str, part: str) -> str:
    """Return the name of a part of a test, such as a subtest."""
    return tidy(f"{name}{PART}{part}") if part else f"{name}{PART}"


def tidy(name: str) -> str:
    """Return the name of a test as one printable line of limited length; different names stay different."""
    if not name.isprintable():
        name = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)
    if len(name) <= LONGEST_NAME:
        return name
    return name[:KEPT_OF_A_NAME] + "…" + hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
