"""Watch what this process imports, and note what keeps lines from being seen. Every Python of a check runs this.

Written for Python 3.6 and newer, and short, as it is compiled each time. Nothing here may change what the program does:
on any problem it runs unobserved.
"""

import atexit
import os
import sys

ORDER = "order"
"""One line per changed file: path in hex, size, checksum, first mark, and the lines that get one."""
READS = "reads"
"""Files, in hex: who opens one of them is noted. Only if that is asked."""
NOTES = "notes"
"""When processes began and ended, and what was not observed in them."""
CHILD_SECONDS = 0.01
"""The least CPU time of child processes that counts."""
LOADER = sys.modules["_frozen_importlib_external"].SourceLoader
RUNNERS = {"_pytest.config": "observe_pytest", "unittest.result": "observe_unittest"}


class ProcessObserver:
    """The files to observe in this process; `marked` are those that were."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}
        self.marked = set()
        self.parts = {}
        self.modules = {}
        self.cwd = os.getcwd()
        # This process may have been another program before, which had children.
        self.child_seconds = child_seconds()
        with open(os.path.join(folder, ORDER)) as lines:
            for line in lines:
                path, *numbers = line.split()
                path = os.fsdecode(bytes.fromhex(path))
                self.files.setdefault(os.path.basename(path), []).append((path, list(map(int, numbers))))

    def observed(self, loader, fullname, code):
        """Return the code of a module: marked if it is a changed file, with ours behind if it is a test runner."""
        try:
            if fullname in RUNNERS:
                self.parts[fullname] = code
                source = "__import__({!r}).run_module({!r}, globals())".format(__name__, fullname)
                return compile(source, code.co_filename, "exec", dont_inherit=True)
            if os.path.basename(code.co_filename) in self.files:
                return self.load("scaffold_observation_lines").marked_code(self, loader, fullname, code)
        except Exception:  # noqa: BLE001, S110 - see above
            pass
        return code

    def load(self, name):
        """Return another of our modules; their folder has been removed from the path."""
        if name not in self.modules:
            path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
            self.modules[name] = module = type(sys)(name)
            with open(path, "rb") as file:
                exec(compile(file.read(), path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - our own code
        return self.modules[name]

    def note(self, name, text):
        """Append a line to one of our files; it is opened each time, as a program may close what it did not open."""
        handle = os.open(os.path.join(self.folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, (text + "\n").encode("ascii"))
        finally:
            os.close(handle)

    def watch_reads(self, lines):
        """Note the code that opens one of the files in `lines`, and the code that called it."""
        wanted = {os.fsdecode(bytes.fromhex(line.strip())) for line in lines}
        names, known = {os.path.basename(path) for path in wanted}, set()

        def watch(event, args):
            if event != "open" or not isinstance(args[0], str) or os.path.basename(args[0]) not in names:
                return
            path, frame = os.path.realpath(args[0]), sys._getframe(1)
            while path in wanted and frame is not None:
                both = (path, os.path.realpath(frame.f_code.co_filename))
                if both not in known:
                    known.add(both)
                    self.note(NOTES, "read {} {}".format(*(os.fsencode(each).hex() for each in both)))
                frame = frame.f_back

        sys.addaudithook(watch)

    def end(self, pid):
        """Note whether there were child processes, and changed files that ran without marks."""
        # A forked child has inherited this, and the note of its parent is enough.
        if os.getpid() != pid:
            return
        children = child_seconds() - self.child_seconds >= CHILD_SECONDS
        unmarked = False
        for module in list(sys.modules.values()) if self.files else ():
            # That of a script is forgotten when it ends.
            path = getattr(module, "__file__", None) or getattr(getattr(module, "__loader__", None), "path", None)
            if isinstance(path, str) and os.path.basename(path) in self.files:
                # A relative one was meant from where the process began.
                path = os.path.realpath(os.path.join(self.cwd, path))
                known = (each[0] for each in self.files.get(os.path.basename(path), ()))
                unmarked = unmarked or (path in known and path not in self.marked)
        self.note(NOTES, "end {} {} {}".format(pid, int(children), int(unmarked)))


def start(folder):
    """Observe this process."""
    global _observer  # noqa: PLW0603 - one for the process
    _observer = observer = ProcessObserver(folder)
    reads = os.path.join(folder, READS)
    if os.path.exists(reads) and hasattr(sys, "addaudithook"):
        with open(reads) as lines:
            observer.watch_reads(lines)
    original = LOADER.get_code

    def get_code(self, fullname):
        return observer.observed(self, fullname, original(self, fullname))

    if hasattr(get_code.__code__, "replace"):
        # So that tracebacks leave it out, as they leave out the function that it replaces.
        get_code.__code__ = get_code.__code__.replace(co_filename=original.__code__.co_filename)
    LOADER.get_code = get_code
    pid = os.getpid()
    atexit.register(observer.end, pid)
    observer.note(NOTES, "start {} {}".format(pid, os.getppid()))


def run_module(fullname, names):
    """Run a module of a test runner in its names, then add ours to it."""
    exec(_observer.parts.pop(fullname), names)  # noqa: S102 - the module's own code
    try:
        getattr(_observer.load("scaffold_observation_tests"), RUNNERS[fullname])(names, _observer)
    except Exception:  # noqa: BLE001, S110 - the tests must run as they would
        pass


def child_seconds():
    """Return the CPU time of the child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


_observer = None
