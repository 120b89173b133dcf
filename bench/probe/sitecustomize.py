"""Loaded by each Python that has this folder on its path: writes down what the process does, a line an event.

A line is written at once and its file closed again, so that the line outlives a process that is killed or closes all
that it has open. A process that may not write there, such as a command in a sandbox, tells nothing of itself.
"""

import atexit
import importlib.util
import os
import sys
import threading

FOLDER_VARIABLE, JSON_VARIABLE, CALLS_VARIABLE = "SCAFFOLD_PROBE", "SCAFFOLD_PROBE_JSON", "SCAFFOLD_PROBE_CALLS"
IN_C, IN_PYTHON = {"Decoder.decode", "Encoder.encode", "json_decode", "json_encode"}, {"loads", "dumps", "dump"}
"""The functions of `msgspec` and of `json` that read or write JSON."""
folder = os.environ.get(FOLDER_VARIABLE, "")
_at_work = False
_calls = 0


def tell(kind: str, text: str) -> None:
    """Append a line to the file of this process; what this does itself is no event."""
    global _at_work  # noqa: PLW0603 - the hooks below have no other place for it
    if _at_work or not folder:
        return
    _at_work = True
    try:
        with open(f"{folder}/{os.getpid()}", "a", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - loads nothing
            file.write(f"{kind}\t{' '.join(text.split())[:400]}\n")
    except OSError:
        pass  # a sandbox, or the measurement is over
    finally:
        _at_work = False


def begin() -> None:
    """Write down what this process and those that it forks do from now on."""
    sys.meta_path.insert(0, _SqliteFinder())
    sys.addaudithook(_audited)
    atexit.register(_ended)
    os.register_at_fork(after_in_child=_forked)
    for variable, profiled in ((JSON_VARIABLE, _profiled), (CALLS_VARIABLE, _counted)):
        if os.environ.get(variable):
            sys.setprofile(profiled)
            threading.setprofile(profiled)


def _audited(event, args) -> None:  # noqa: ANN001 - as Python calls it
    if event == "open" and not isinstance(args[0], int):
        tell("file", os.fsdecode(args[0]))
    elif event == "import":
        tell("module", args[0])
    elif event in {"subprocess.Popen", "os.posix_spawn", "os.exec"}:
        tell("process", " ".join(os.fsdecode(word) for word in args[1]))
    elif event == "sqlite3.connect":
        tell("database", str(args[0]))


class _SqliteFinder:
    """Finds `sqlite3` as others do, and has each connection tell of its statements."""

    def find_spec(self, name, path=None, target=None):  # noqa: ANN001, ANN202, ARG002
        if name != "sqlite3":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module) -> None:  # noqa: ANN001
            load(module)
            connect = module.connect

            def traced(*args, **options):  # noqa: ANN002, ANN003, ANN202
                connection = connect(*args, **options)
                connection.set_trace_callback(lambda statement: tell("statement", statement))
                return connection

            module.connect = traced

        spec.loader.exec_module = exec_module
        return spec


def _profiled(frame, event, arg) -> None:  # noqa: ANN001 - as Python calls it
    if event == "c_call" and (name := getattr(arg, "__qualname__", "")) in IN_C:
        tell("json", f"{name} {frame.f_code.co_filename}:{frame.f_lineno}")
    elif (
        event == "call"
        and (code := frame.f_code).co_name in IN_PYTHON
        and code.co_filename.endswith("json/__init__.py")
    ):
        tell("json", f"{code.co_name} {frame.f_back.f_code.co_filename}:{frame.f_back.f_lineno}")


def _counted(_frame, event, _arg) -> None:  # noqa: ANN001 - as Python calls it
    global _calls  # noqa: PLW0603 - as above
    _calls += event == "call"


def _forked() -> None:
    """Begin the file of a forked process: the zygote's requests say what the child will run."""
    global _calls  # noqa: PLW0603 - as above
    _calls = 0
    caller = sys._getframe(1)  # noqa: SLF001 - there is no other way to see who forks
    request = caller.f_locals.get("request")
    tell("start", f"forked {getattr(request, 'main', caller.f_code.co_name)}")


def _ended() -> None:
    """Tell of the CPU time used here, and by all processes that were waited for, and of the calls of functions."""
    used = os.times()
    tell("cpu", f"{used.user + used.system:.3f} {used.children_user + used.children_system:.3f}")
    tell("calls", str(_calls))


def _leave(code: int, leave=os._exit) -> None:  # noqa: ANN001
    _ended()
    leave(code)


if folder:
    with open("/proc/self/cmdline", "rb") as _file:  # noqa: PTH123 - loads nothing
        tell("start", _file.read().replace(b"\0", b" ").decode(errors="replace"))
    os._exit = _leave
    begin()
