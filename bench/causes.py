"""What processes do, counted from inside by `probe/` and from outside by strace, by process and by cause."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct, field

PROBE = Path(__file__).parent / "probe"
INSIDE = ("cpu ms", "process", "git", "module", "file", "database", "transaction", "statement", "json")
OUTSIDE = ("executed", "forked", "opened", "synced", "written kB")
STRACE = (
    *("strace", "-ff", "-qq", "-y", "--seccomp-bpf", "-s", "200", "-e", "signal=none"),
    *("-e", "trace=execve,fork,vfork,clone,clone3,open,openat,fsync,fdatasync,write,pwrite64,writev"),
)
CALL = re.compile(r"^(?P<name>\w+)\((?P<args>.*)\) += (?P<result>-?\d+)")
CHANGING = (
    (re.compile(r"(/tmp/)?scaffold-bench-\w+"), "FOLDER"),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "HASH"),
    (re.compile(r"'[^']*'"), "'X'"),
    (re.compile(r"\b(?=\w*\d)[a-z0-9]{8}\b"), "ID"),
    (re.compile(r"\b\d+\b"), "N"),
)
"""What differs between two events of one cause."""

Work = Callable[[Mapping[str, str], Sequence[str]], None]
"""Work to be counted: it starts its processes with the variables, by the wrapper."""


class Causes(Struct, frozen=True):
    """What the processes of each role did: counts by cause, and how often which event of it came."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Role, then cause."""
    events: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Cause, then the event without what changes from one to the next."""

    def add(self, role: str, cause: str, amount: float, event: str = "") -> None:
        """Count something of a process of this role."""
        self.counts[role][cause] += amount  # type: ignore[assignment]
        if event:
            for changing, name in CHANGING:
                event = changing.sub(name, event)
            self.events[cause][f"{role}: {event}"] += 1

    def total(self, cause: str) -> float:
        """Return the count of all processes."""
        return sum(each[cause] for each in self.counts.values())

    def for_each(self, less: "Causes", units: int) -> "Causes":
        """Return what one more unit of work costs, given the causes of a work that has so many units less."""
        fewer = Causes()
        for mine, its, out in ((self.counts, less.counts, fewer.counts), (self.events, less.events, fewer.events)):
            for name in mine:
                for key in mine[name] | its.get(name, Counter()):
                    out[name][key] = (mine[name][key] - its.get(name, Counter())[key]) / units  # type: ignore[assignment]
        return fewer


def seen_inside(work: Work, *, json: bool = False) -> Causes:
    """Return what the Python processes of the work tell; `json` also counts encodings and decodings, and is slow."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        told = {"SCAFFOLD_PROBE": folder, "PYTHONPATH": str(PROBE)}
        work(told | ({"SCAFFOLD_PROBE_JSON": "yes"} if json else {}), ())
        return _told(Path(folder))


def seen_outside(work: Work) -> Causes:
    """Return what strace sees of all processes of the work."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        work({}, (*STRACE, "-o", f"{folder}/calls"))
        causes = Causes()
        for path in Path(folder).iterdir():
            _add_calls(causes, path.read_text(errors="replace").splitlines())
        return causes


def _told(folder: Path) -> Causes:
    causes = Causes()
    for path in folder.iterdir():
        lines = [line.partition("\t")[::2] for line in path.read_text(errors="replace").splitlines()]
        role = _role(next((text for kind, text in lines if kind == "start"), "other"))
        causes.add(role, "processes", 1)
        for kind, text in lines:
            match kind:
                case "cpu":
                    causes.add(role, "cpu ms", float(text.split()[0]) * 1000)
                case "calls":
                    causes.add(role, "calls", int(text))
                case "statement" if text.startswith(("BEGIN", "SAVEPOINT")):
                    causes.add(role, "transaction", 1)
                case "statement" if text.startswith(("COMMIT", "ROLLBACK", "RELEASE")):
                    pass
                case "process":
                    causes.add(role, "process", 1, text)
                    causes.add(role, "git", text.startswith("git "))
                case "start":
                    pass
                case _:
                    causes.add(role, kind, 1, text)
    return causes


def _add_calls(causes: Causes, lines: Iterable[str]) -> None:
    """Add the calls of one process; it does what it does as the program that it last executed."""
    role = "forked, without a program of its own"
    for line in lines:
        call = CALL.match(line)
        if call is None or (result := int(call["result"])) < 0:
            continue
        name, args = call["name"], call["args"]
        match name:
            case "execve":
                role = _role(" ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', args.partition(", [")[2].partition("], ")[0])))
                causes.add(role, "executed", 1)
            case "fork" | "vfork" | "clone" | "clone3":
                causes.add(role, "forked", "CLONE_THREAD" not in args)
            case "open" | "openat":
                causes.add(role, "opened", 1, args.partition('"')[2].partition('"')[0])
            case "fsync" | "fdatasync":
                causes.add(role, "synced", 1, args.partition("<")[2].rpartition(">")[0])
            case _ if args.partition("<")[2].startswith("/") and not args.partition("<")[2].startswith("/dev/"):
                causes.add(role, "written kB", result / 1000)


def _role(command: str) -> str:
    """Return what a process is, from its command line."""
    words = [Path(word).name for word in command.split()]
    match words:
        case ["forked", *_]:
            return command.removeprefix("forked ")
        case ["scaffold" | "ralph" as name, *_]:
            return name
        case [str(python), *rest] if python.startswith("python"):
            if "scaffold" in rest:
                return " ".join(["scaffold", *rest[rest.index("scaffold") + 1 :][:1]])
            return "ralph" if "ralph" in rest[:1] else python
        case [name, *_]:
            return name
    return "other"
