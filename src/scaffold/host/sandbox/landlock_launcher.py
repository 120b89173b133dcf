"""Starts a command that the kernel holds to its zone: `main([KIND:VALUE..., "--", COMMAND...])`, alone in its process.

KIND is what a path is: `writable`, `sealed`, `hidden` or `shown`; of two paths the deeper one counts, but nothing below
a sealed one is writable. What is not named can be read. `filter:HEX` is a seccomp program; several add up.
`network:open` leaves the network as it is. The command takes our place under our number, without capabilities and
descriptors of ours; what could not be set up ends us with 126, a command that is not there with 127.

Landlock only allows, and what it allows for a folder holds for all below it. So a folder on the way to something
sealed or hidden gets nothing for itself, and what else lies in it gets its rights one by one: in such a folder, a
passage, nothing can be made, removed or renamed. Names can be listed everywhere, content cannot. It must
start fast, so no other module of ours is imported. `landlock.py` says what the whole holds and what not.
"""

import ctypes
import os
import stat
import sys
from _collections_abc import Callable, Iterator  # known by that name already; `collections` takes 2 ms

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION = 1
PATH_BENEATH = 1
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 24, 38, 22, 2
CAPABILITY_VERSION_3 = 0x20080522
SIGPIPE, SIGXFSZ, SIG_DFL = 13, 25, 0

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
RIGHTS_BY_VERSION = (0, 13, 14, 15, 15, 16)
"""How many rights over files each version of Landlock knows; later ones as many as the last here."""
NET_SINCE, NET_RIGHTS = 4, 0b11
SCOPE_SINCE, SCOPES = 6, 0b11
"""Abstract Unix sockets and signals end at the border of the domain."""

READING = EXECUTE | READ_FILE | READ_DIR
CHANGING = 0xFFFF & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
OF_DEVICES = WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

RESTRICTING = {"sealed", "hidden"}
OPEN_NETWORK = "network:open"
Marks = dict[str, set[str]]
Rule = tuple[str, int]


def main(words: list[str]) -> None:
    """Enter the domain that the words before `--` describe and become the command after it."""
    border = words.index("--")
    marks, filters = parsed([word for word in words[:border] if word != OPEN_NETWORK])
    command = words[border + 1 :]
    try:
        kernel = Kernel()
        kernel.drop_capabilities()
        Domain(kernel, _identities(marks), open_network=OPEN_NETWORK in words[:border]).enter(reach(marks, _names))
        for program in filters:
            kernel.ask(program)
        kernel.restore_signals()
    except OSError as error:
        _end(126, f"the sandbox could not be set up: {error}")
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    try:
        os.execvp(command[0], command)  # noqa: S606 - a shell is what we are to keep out of this
    except OSError as error:
        _end(127 if isinstance(error, FileNotFoundError) else 126, f"{error.strerror}: {command[0]}")


def parsed(words: list[str]) -> tuple[Marks, list[bytes]]:
    """Return the marked paths and the seccomp programs; what is sealed or hidden also as what its links lead to.

    What gives rights is never followed: a command might have put a link there for the next one.
    """
    marks: Marks = {}
    filters = []
    for word in words:
        kind, _, value = word.partition(":")
        if kind == "filter":
            filters.append(bytes.fromhex(value))
            continue
        marks.setdefault(os.path.normpath(value), set()).add(kind)
        if kind in RESTRICTING:
            marks.setdefault(os.path.realpath(value), set()).add(kind)
    return marks, filters


class Node:
    """A path that is marked, or that leads to one that is."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.below: dict[str, Node] = {}


class State:
    """What holds at a path: nothing | reading | reading and changing; and whether changing is ruled out for good."""

    def __init__(self, rights: int, fixed: bool = False) -> None:
        self.rights = rights
        self.fixed = fixed

    def at(self, node: Node) -> "State":
        """Return what holds at a path below, given how it is marked."""
        fixed = self.fixed or "sealed" in node.kinds
        rights = self.rights
        if "writable" in node.kinds:
            rights = CHANGING
        if "hidden" in node.kinds:
            rights = 0
        if "shown" in node.kinds:
            rights |= READING
        return State(rights & READING if fixed else rights, fixed)

    def holds_below(self, node: Node) -> bool:
        """Return whether all that is marked below `node` has the rights that we have."""
        return all(
            after.rights == self.rights and after.holds_below(child)
            for child, after in ((child, self.at(child)) for child in node.below.values())
        )


def reach(marks: Marks, names: Callable[[str], list[str]]) -> Iterator[Rule]:
    """Yield each path that has rights of its own, with them; `names` lists a folder, and of what is none nothing."""
    yield "/", READ_DIR
    top = _tree(marks)
    yield from _reach_below("/", top, State(READING).at(top), names)


def _reach_below(path: str, node: Node, state: State, names: Callable[[str], list[str]]) -> Iterator[Rule]:
    if state.holds_below(node):
        if state.rights:
            yield path, state.rights
        return
    for name, child in node.below.items():
        yield from _reach_below(f"{path.rstrip('/')}/{name}", child, state.at(child), names)
    for name in names(path) if state.rights else ():
        if name not in node.below:
            yield f"{path.rstrip('/')}/{name}", state.rights


def _tree(marks: Marks) -> Node:
    top = Node()
    for path, kinds in marks.items():
        node = top
        for name in filter(None, path.split("/")):
            node = node.below.setdefault(name, Node())
        node.kinds |= kinds
    return top


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208 - pathlib would double our start-up
    except OSError:  # not there, not a folder, or not ours to list
        return []


def _identities(marks: Marks) -> dict[tuple[int, int], set[str]]:
    """Return what is sealed or hidden by device and number: a path may have other names."""
    found: dict[tuple[int, int], set[str]] = {}
    for path, kinds in marks.items():
        if kinds & RESTRICTING and "shown" not in kinds and os.path.lexists(path):
            about = os.lstat(path)
            found.setdefault((about.st_dev, about.st_ino), set()).update(kinds)
    return found


class Domain:
    """A set of rules that is built and then entered, for good."""

    def __init__(self, kernel: "Kernel", held: dict[tuple[int, int], set[str]], *, open_network: bool) -> None:
        """Begin without rules; `held` tells what is sealed or hidden, by device and number."""
        self._kernel = kernel
        self._held = held
        known = kernel.landlock_version()
        self._handled = (1 << RIGHTS_BY_VERSION[min(known, len(RIGHTS_BY_VERSION) - 1)]) - 1
        wanted = [self._handled]
        if known >= NET_SINCE:
            wanted.append(0 if open_network else NET_RIGHTS)
        if known >= SCOPE_SINCE:
            wanted.append(SCOPES)
        attributes = (ctypes.c_uint64 * len(wanted))(*wanted)
        self._ruleset = kernel.call(CREATE_RULESET, attributes, ctypes.sizeof(attributes), 0)

    def enter(self, rules: Iterator[Rule]) -> None:
        """Allow ourselves and all that we start what the rules say and harmless devices, and nothing else."""
        for path, rights in rules:
            self._allow(path, rights)
        for path in DEVICES:
            self._allow(path, OF_DEVICES)
        if stat.S_ISREG(os.fstat(0).st_mode):
            self._add(0, READ_FILE)  # as `/dev/stdin` it is opened again, and may lie where nothing can be read
        self._kernel.control(PR_SET_NO_NEW_PRIVS, 1)
        self._kernel.call(RESTRICT_SELF, self._ruleset, 0)

    def _allow(self, path: str, rights: int) -> None:
        """Allow what is there and no link `rights`; what is held under another name only what that leaves."""
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # gone meanwhile, or behind a folder that is not ours
            return
        try:
            about = os.fstat(fd)
            kinds = self._held.get((about.st_dev, about.st_ino), ())
            rights &= 0 if "hidden" in kinds else READING if "sealed" in kinds else CHANGING | OF_DEVICES
            if not stat.S_ISDIR(about.st_mode):
                rights &= OF_FILES
            if rights and not stat.S_ISLNK(about.st_mode):
                self._add(fd, rights)
        finally:
            os.close(fd)

    def _add(self, fd: int, rights: int) -> None:
        beneath = (rights & self._handled).to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
        self._kernel.call(ADD_RULE, self._ruleset, PATH_BENEATH, beneath, 0)


class Kernel:
    """Calls for which Python has no function; OSError for those that are refused."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._library.syscall.restype = ctypes.c_long

    def call(self, number: int, *arguments: object) -> int:
        """Make a call by its number; numbers must be at most 32 bits wide."""
        return self._checked(self._library.syscall(ctypes.c_long(number), *map(_wide, arguments)))

    def control(self, operation: int, *arguments: object) -> int:
        """Make a `prctl`."""
        return self._checked(self._library.prctl(operation, *map(_wide, (*arguments, 0, 0, 0, 0)[:4])))

    def landlock_version(self) -> int:
        """Return the version of Landlock that this kernel offers; OSError if it offers none."""
        return self.call(CREATE_RULESET, None, 0, ASK_VERSION)

    def drop_capabilities(self) -> None:
        """Give up what root may beyond its files; programs that we become cannot get it back."""
        number = 0
        while self._library.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
            number += 1
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        self._checked(self._library.capset(header, (ctypes.c_uint32 * 6)()))

    def ask(self, program: bytes) -> None:
        """Have this seccomp program judge every call from now on."""
        code = ctypes.create_string_buffer(program, len(program))
        header = (len(program) // 8).to_bytes(8, sys.byteorder) + ctypes.addressof(code).to_bytes(8, sys.byteorder)
        self.control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header)

    def restore_signals(self) -> None:
        """Undo what Python did at its start: a command expects to end when nobody reads what it writes."""
        for number in (SIGPIPE, SIGXFSZ):
            self._library.signal(number, ctypes.c_void_p(SIG_DFL))

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def _wide(argument: object) -> object:
    """Return an argument as the kernel reads it, a whole register of it."""
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def _end(code: int, reason: str) -> None:
    os.write(2, f"{reason}\n".encode(errors="surrogateescape"))
    os._exit(code)
