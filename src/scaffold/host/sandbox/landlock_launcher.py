"""Restrict this process with Landlock and become a command: `main([KIND:VALUE..., "--", COMMAND...])`.

KIND is the kind of a path: `writable`, `sealed` (read-only), `hidden` or `shown` (readable). The deeper of two paths
decides, but nothing below a sealed one is writable. Other paths are readable. `filter:HEX` is a seccomp program, may be
repeated. `network:open` leaves the network unrestricted. The command replaces us (exec), without capabilities and
without our descriptors. Exit code 126 if the sandbox could not be set up, 127 if the command was not found.

Landlock rules only allow, and a rule for a folder holds for everything below it. So a folder above a sealed or hidden
path gets no rights itself, and each of its other entries gets its own rule: in such a folder no entry can be created,
removed or renamed. Names can be listed everywhere. A path that gets rights is opened and listed step by step without
following a link, which an earlier command may have planted. This must start fast, so it imports none of our modules.
`landlock.py` describes what this sandbox does and does not restrict.
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
# REFER came with version 2, TRUNCATE with 3 and IOCTL_DEV with 5; a kernel refuses rights that it does not know.
RIGHTS_BY_VERSION = (0, 13, 14, 15, 15, 16)
"""Number of file rights in each Landlock version; later versions have at least the last number."""
NET_SINCE, NET_RIGHTS = 4, 0b11
SCOPE_SINCE, SCOPES = 6, 0b11
"""Since this version abstract Unix sockets and signals cannot leave the domain."""

READING = EXECUTE | READ_FILE | READ_DIR
CHANGING = 0xFFFF & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
OF_DEVICES = WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

RESTRICTING = {"sealed", "hidden"}
OPEN_NETWORK = "network:open"
PathMarks = dict[str, set[str]]
Rule = tuple[str, int]


def main(words: list[str]) -> None:
    """Enter the domain described before `--` and become the command after it."""
    border = words.index("--")
    marks, filters = parse_arguments([word for word in words[:border] if word != OPEN_NETWORK])
    command = words[border + 1 :]
    try:
        kernel = RawSyscalls()
        kernel.drop_capabilities()
        LandlockDomain(kernel, _identities(marks), open_network=OPEN_NETWORK in words[:border]).enter(
            access_rules(marks, _names)
        )
        # After `enter`: without capabilities the kernel accepts a filter only from a process with no_new_privs.
        for program in filters:
            kernel.ask(program)
        kernel.restore_signals()
    except OSError as error:
        _end(126, f"the sandbox could not be set up: {error}")
    # Landlock checks the opening of a file. A descriptor that is open already keeps all its rights.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted here
    except OSError as error:
        _end(127 if isinstance(error, FileNotFoundError) else 126, f"{error.strerror}: {command[0]}")


def parse_arguments(words: list[str]) -> tuple[PathMarks, list[bytes]]:
    """Return the marked paths and the seccomp programs; sealed and hidden paths also with symlinks resolved.

    Symlinks of paths that grant rights are not resolved: an earlier command may have planted them.
    """
    marks: PathMarks = {}
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


class PathNode:
    """A marked path or a parent of one."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.below: dict[str, PathNode] = {}


class PathAccess:
    """The rights at a path: none, READING or CHANGING; `fixed` if nothing below may be writable."""

    def __init__(self, rights: int, fixed: bool = False) -> None:
        self.rights = rights
        self.fixed = fixed

    def at(self, node: PathNode) -> "PathAccess":
        """Return the access at a child node, given its marks."""
        fixed = self.fixed or "sealed" in node.kinds
        rights = self.rights
        if "writable" in node.kinds:
            rights = CHANGING
        if "hidden" in node.kinds:
            rights = 0
        if "shown" in node.kinds:
            rights |= READING
        return PathAccess(rights & READING if fixed else rights, fixed)

    def holds_below(self, node: PathNode) -> bool:
        """Return True if everything marked below `node` has the same rights as here."""
        return all(
            after.rights == self.rights and after.holds_below(child)
            for child, after in ((child, self.at(child)) for child in node.below.values())
        )


def access_rules(marks: PathMarks, names: Callable[[str], list[str]]) -> Iterator[Rule]:
    """Yield (path, rights) for each rule needed; `names` lists a folder and returns [] for anything else."""
    yield "/", READ_DIR
    top = _tree(marks)
    yield from _rules_below("/", top, PathAccess(READING).at(top), names)


def _rules_below(path: str, node: PathNode, state: PathAccess, names: Callable[[str], list[str]]) -> Iterator[Rule]:
    if state.holds_below(node):
        if state.rights:
            yield path, state.rights
        return
    for name, child in node.below.items():
        yield from _rules_below(f"{path.rstrip('/')}/{name}", child, state.at(child), names)
    for name in names(path) if state.rights else ():
        if name not in node.below:
            yield f"{path.rstrip('/')}/{name}", state.rights


def _tree(marks: PathMarks) -> PathNode:
    top = PathNode()
    for path, kinds in marks.items():
        node = top
        for name in filter(None, path.split("/")):
            node = node.below.setdefault(name, PathNode())
        node.kinds |= kinds
    return top


def _names(path: str) -> list[str]:
    """Return the names in a folder; empty if it is missing, unreadable, a link, or no folder."""
    try:
        place = _open_without_links(path)
    except OSError:
        return []
    try:
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    except OSError:
        return []
    finally:
        os.close(place)
    try:
        return os.listdir(folder)  # noqa: PTH208 - pathlib would double our start-up
    finally:
        os.close(folder)


def _open_without_links(path: str) -> int:
    """Open an absolute path; OSError if a folder on the way is missing or a link. The last part may be a link."""
    here = os.open("/", os.O_PATH | os.O_CLOEXEC)
    for name in filter(None, path.split("/")):
        above = here
        try:
            here = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        finally:
            os.close(above)
    return here


def _identities(marks: PathMarks) -> dict[tuple[int, int], set[str]]:
    """Return the marks of sealed and hidden files by device and inode: a file may have several names."""
    found: dict[tuple[int, int], set[str]] = {}
    for path, kinds in marks.items():
        if kinds & RESTRICTING and "shown" not in kinds and os.path.lexists(path):
            about = os.lstat(path)
            found.setdefault((about.st_dev, about.st_ino), set()).update(kinds)
    return found


class LandlockDomain:
    """A Landlock ruleset that is built and then entered irrevocably."""

    def __init__(self, kernel: "RawSyscalls", held: dict[tuple[int, int], set[str]], *, open_network: bool) -> None:
        """Create the ruleset without rules; `held` has the sealed and hidden files by device and inode."""
        self._kernel = kernel
        self._held = held
        version = kernel.landlock_version()
        self._handled = (1 << RIGHTS_BY_VERSION[min(version, len(RIGHTS_BY_VERSION) - 1)]) - 1
        # The size of the attributes tells the kernel which fields there are; older ones refuse fields they do not know.
        fields = [self._handled]
        if version >= NET_SINCE:
            fields.append(0 if open_network else NET_RIGHTS)
        if version >= SCOPE_SINCE:
            fields.append(SCOPES)
        attributes = (ctypes.c_uint64 * len(fields))(*fields)
        self._ruleset = kernel.call(CREATE_RULESET, attributes, ctypes.sizeof(attributes), 0)

    def enter(self, rules: Iterator[Rule]) -> None:
        """Restrict this process and its descendants to the rules and some harmless devices."""
        for path, rights in rules:
            self._allow(path, rights)
        for path in DEVICES:
            self._allow(path, OF_DEVICES)
        if stat.S_ISREG(os.fstat(0).st_mode):
            self._add(0, READ_FILE)  # opening /dev/stdin reopens this file, which may be in an unreadable folder
        self._kernel.control(PR_SET_NO_NEW_PRIVS, 1)
        self._kernel.call(RESTRICT_SELF, self._ruleset, 0)

    def _allow(self, path: str, rights: int) -> None:
        """Allow `rights` on an existing non-symlink; fewer if it is another name of a sealed or hidden file."""
        try:
            fd = _open_without_links(path)
        except OSError:  # removed or replaced meanwhile, or in an inaccessible folder
            return
        try:
            about = os.fstat(fd)
            kinds = self._held.get((about.st_dev, about.st_ino), ())
            rights &= 0 if "hidden" in kinds else READING if "sealed" in kinds else CHANGING | OF_DEVICES
            # The kernel answers EINVAL to a rule that gives a file the rights of a folder.
            if not stat.S_ISDIR(about.st_mode):
                rights &= OF_FILES
            if rights and not stat.S_ISLNK(about.st_mode):
                self._add(fd, rights)
        finally:
            os.close(fd)

    def _add(self, fd: int, rights: int) -> None:
        # struct landlock_path_beneath_attr is packed: 8 bytes of rights, 4 of descriptor, and no padding.
        beneath = (rights & self._handled).to_bytes(8, sys.byteorder) + fd.to_bytes(4, sys.byteorder)
        self._kernel.call(ADD_RULE, self._ruleset, PATH_BENEATH, beneath, 0)


class RawSyscalls:
    """System calls without a Python function; they raise OSError on failure."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._library.syscall.restype = ctypes.c_long

    def call(self, number: int, *arguments: object) -> int:
        """Make a system call by number; integer arguments must fit in 32 bits."""
        return self._checked(self._library.syscall(ctypes.c_long(number), *map(_wide, arguments)))

    def control(self, operation: int, *arguments: object) -> int:
        """Call `prctl`."""
        return self._checked(self._library.prctl(operation, *map(_wide, (*arguments, 0, 0, 0, 0)[:4])))

    def landlock_version(self) -> int:
        """Return this kernel's Landlock version; OSError if it has none."""
        return self.call(CREATE_RULESET, None, 0, ASK_VERSION)

    def drop_capabilities(self) -> None:
        """Drop all capabilities, also from the bounding set, so that executed programs cannot regain them."""
        number = 0
        # The kernel refuses the first number that names no capability; without CAP_SETPCAP it refuses all.
        while self._library.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
            number += 1
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        self._checked(self._library.capset(header, (ctypes.c_uint32 * 6)()))

    def ask(self, program: bytes) -> None:
        """Install this seccomp program for all further calls."""
        code = ctypes.create_string_buffer(program, len(program))
        # struct sock_fprog: a 16-bit length, padding, a pointer. In little-endian order an 8-byte length is the same.
        header = (len(program) // 8).to_bytes(8, sys.byteorder) + ctypes.addressof(code).to_bytes(8, sys.byteorder)
        self.control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header)

    def restore_signals(self) -> None:
        """Restore the default signals that Python ignores; commands expect SIGPIPE to end them."""
        for number in (SIGPIPE, SIGXFSZ):
            self._library.signal(number, ctypes.c_void_p(SIG_DFL))

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def _wide(argument: object) -> object:
    """Return an integer argument as a full register (c_long); others unchanged."""
    # `syscall` is variadic: ctypes passes an int with 32 bits and leaves the upper half of the register undefined.
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def _end(code: int, reason: str) -> None:
    os.write(2, f"{reason}\n".encode(errors="surrogateescape"))
    os._exit(code)
