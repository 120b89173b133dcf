"""What a process may access under Landlock: rights by path, turned into rules of the kernel.

Landlock rules only allow, and a rule for a folder holds for everything below it. So a restricted folder, one above a
protected or hidden path, gets no rights itself, and each of its other entries gets its own rule: the command itself
cannot create, remove or rename an entry there; see `broker`. Names can be listed everywhere. A path that gets rights is
opened and listed step by step without following a link, which an earlier command may have planted.

The launcher imports this and must start fast, so it imports none of our modules.
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
SECCOMP_SET_MODE_FILTER = 1
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

PathMarks = dict[str, set[str]]
Rule = tuple[str, int]


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


def access_rules(top: PathNode, names: Callable[[str], list[str]]) -> Iterator[Rule]:
    """Yield (path, rights) for each rule needed; `names` lists a folder and returns [] for anything else."""
    yield "/", READ_DIR
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


def restricted_folders(top: PathNode) -> Iterator[str]:
    """Yield the writable folders that get no rights, because something below them has fewer."""
    waiting = [("", top, PathAccess(READING).at(top))]
    while waiting:
        path, node, access = waiting.pop()
        if access.rights == CHANGING and not access.holds_below(node):
            yield path or "/"
        waiting.extend((f"{path}/{name}", child, access.at(child)) for name, child in node.below.items())


def path_tree(marks: PathMarks) -> PathNode:
    """Return the tree of the marked paths; its root is `/`."""
    top = PathNode()
    for path, kinds in marks.items():
        node = top
        for name in filter(None, path.split("/")):
            node = node.below.setdefault(name, PathNode())
        node.kinds |= kinds
    return top


def names_in(path: str) -> list[str]:
    """Return the names in a folder; empty if it is missing, unreadable, a link, or no folder."""
    try:
        place = open_without_links(path)
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


def open_without_links(path: str) -> int:
    """Open an absolute path; OSError if a folder on the way is missing or a link. The last part may be a link."""
    here = os.open("/", os.O_PATH | os.O_CLOEXEC)
    for name in filter(None, path.split("/")):
        above = here
        try:
            here = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        finally:
            os.close(above)
    return here


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
            self._allow_path(path, rights)
        for path in DEVICES:
            self._allow_path(path, OF_DEVICES)
        if stat.S_ISREG(os.fstat(0).st_mode):
            self.allow_descriptor(
                0, READ_FILE
            )  # opening /dev/stdin reopens this file, which may be in an unreadable folder
        self._kernel.control(PR_SET_NO_NEW_PRIVS, 1)
        self._kernel.call(RESTRICT_SELF, self._ruleset, 0)

    def _allow_path(self, path: str, rights: int) -> None:
        """Allow `rights` on an existing non-symlink; fewer if it is another name of a sealed or hidden file."""
        try:
            fd = open_without_links(path)
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
                self.allow_descriptor(fd, rights)
        finally:
            os.close(fd)

    def allow_descriptor(self, fd: int, rights: int) -> None:
        """Allow `rights` on an open file or folder."""
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
        return self._check_result(self._library.syscall(ctypes.c_long(number), *map(_widen_argument, arguments)))

    def control(self, operation: int, *arguments: object) -> int:
        """Call `prctl`."""
        return self._check_result(self._library.prctl(operation, *map(_widen_argument, (*arguments, 0, 0, 0, 0)[:4])))

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
        self._check_result(self._library.capset(header, (ctypes.c_uint32 * 6)()))

    def ask(self, program: bytes) -> None:
        """Install this seccomp program for all further calls."""
        code = ctypes.create_string_buffer(program, len(program))
        self.control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, _program_header(code))

    def notify(self, number: int, flags: int, program: bytes) -> int:
        """Install it with the flags of the system call `seccomp`, whose number is given; return the listener."""
        code = ctypes.create_string_buffer(program, len(program))
        return self.call(number, SECCOMP_SET_MODE_FILTER, flags, _program_header(code))

    def restore_signals(self) -> None:
        """Restore the default signals that Python ignores; commands expect SIGPIPE to end them."""
        for number in (SIGPIPE, SIGXFSZ):
            self._library.signal(number, ctypes.c_void_p(SIG_DFL))

    def _check_result(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def _program_header(code: "ctypes.Array[ctypes.c_char]") -> bytes:
    """Return a struct sock_fprog for a seccomp program: a 16-bit length, padding, a pointer."""
    # In little-endian order an 8-byte length is the same.
    return (len(code) // 8).to_bytes(8, sys.byteorder) + ctypes.addressof(code).to_bytes(8, sys.byteorder)


def _widen_argument(argument: object) -> object:
    """Return an integer argument as a full register (c_long); others unchanged."""
    # `syscall` is variadic: ctypes passes an int with 32 bits and leaves the upper half of the register undefined.
    return ctypes.c_long(argument) if isinstance(argument, int) else argument
