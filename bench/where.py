"""Say where the cost of something comes from: a table by process and by cause.

`python bench/where.py [--json] [--top N] [SUBJECT...]` counts what the processes of a subject do, from inside
(`probe/`) and, where strace is installed, from outside. A subject that comes in units is carried out twice, and its
table is of one more unit. `--top` lists the most frequent events of each cause; `--json` also counts JSON, and is slow.
"""

import argparse
import os
import shutil
import subprocess  # noqa: TID251 - the commands are measured
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct, structs
from msgspec.json import encode

from causes import INSIDE, OUTSIDE, PROBE, Causes, seen_inside, seen_outside
from command_start import lay_out
from landing import land_apart
from many_goals import run_of_changes
from ralph_start import RALPH, TASK, ralph_setup
from scaffold.host.process.async_runner import run_async
from scratch_run import ScratchRun
from stories import STEPS, run_of_stories

Work = Callable[[int, Mapping[str, str], Sequence[str]], None]
"""Carries out so many units with additional variables, by a program that runs the command."""


class Subject(Struct, frozen=True, kw_only=True):
    """Something whose causes can be counted."""

    work: Work
    sizes: tuple[int, ...] = (1,)
    """The units of its work, or few and many."""
    parts: int = 1
    """In each unit of the work."""
    traced: bool = True
    """Whether strace would see nothing but the work."""

    def of_sizes(self, *sizes: int) -> "Subject":
        """Return the same with other sizes."""
        return structs.replace(self, sizes=sizes)

    def seen(self, look: Callable[..., Causes]) -> Causes:
        """Return what it does, or what one more part of it does."""
        seen = [look(partial(self.work, size)) for size in self.sizes]
        return seen[0] if len(seen) == 1 else seen[1].for_each(seen[0], (self.sizes[1] - self.sizes[0]) * self.parts)


def actions(count: int, variables: Mapping[str, str], wrapper: Sequence[str]) -> None:
    """Land so many actions that write a file each, one after another."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        _carry_out(run_of_changes(Path(folder), 1, count, {}, agents=1), variables, wrapper)


def stories(count: int, variables: Mapping[str, str], wrapper: Sequence[str]) -> None:
    """Work so many stories one after another."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        _carry_out(run_of_stories(Path(folder), count, agents=1, sleep_s=0.0), variables, wrapper)


def landings(count: int, variables: Mapping[str, str], _wrapper: Sequence[str]) -> None:
    """Land so many candidates in a process of their own, which tells of the landings alone."""
    paths = os.pathsep.join([str(PROBE), str(PROBE.parent)])
    _call(
        [sys.executable, "-c", f"import where; where.land({count})"], {**os.environ, **variables, "PYTHONPATH": paths}
    )


def land(count: int) -> None:
    """Land so many candidates here, and have the probe see nothing else."""
    import sitecustomize as probe

    told, probe.folder = probe.folder, ""

    @contextmanager
    def seen() -> Iterator[None]:
        probe.folder = told
        yield
        probe.folder = ""

    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        run_async(land_apart(Path(folder), count, seen))


def command(*args: str) -> Work:
    """Return a call of a command in a repository with a run of ten actions."""

    def call(_count: int, variables: Mapping[str, str], wrapper: Sequence[str]) -> None:
        with TemporaryDirectory(prefix="scaffold-bench-") as folder:
            _call(["git", "init", "--quiet", folder], os.environ)
            lay_out(Path(folder))
            _call([*wrapper, sys.executable, "-m", "scaffold", *args], {**os.environ, **variables}, folder)

    return call


def ralph_start(_count: int, variables: Mapping[str, str], wrapper: Sequence[str]) -> None:
    """Ask a model something in a repository; it answers at once."""
    with ralph_setup(repository=True) as setup:
        argv = [*wrapper, str(RALPH), "-p", TASK, "--model", "openai:bench-0-0"]
        _call(argv, {**os.environ, **setup.env, **variables}, setup.cwd)


ACTION = Subject(work=actions, sizes=(4, 12))
SUBJECTS: Mapping[str, Subject] = {
    "action": ACTION,
    "landing": Subject(work=landings, sizes=(4, 12), traced=False),
    "story-step": Subject(work=stories, sizes=(1, 3), parts=STEPS),
    "help": Subject(work=command("--help")),
    "status": Subject(work=command("status")),
    "ralph-start": Subject(work=ralph_start),
}


def main() -> None:
    """Print the tables of the subjects that were asked for, of all without a name."""
    parser = argparse.ArgumentParser(description="Count what something costs, by process and by cause.")
    parser.add_argument("--json", action="store_true", help="count JSON that is read and written, too")
    parser.add_argument("--top", type=int, default=0, metavar="N", help="list the N most frequent events of each cause")
    parser.add_argument("--lines", action="store_true", help="print the sums as JSON lines, for bench/record.py")
    parser.add_argument("subjects", nargs="*", choices=[[], *SUBJECTS], metavar="SUBJECT", help=", ".join(SUBJECTS))
    asked = parser.parse_args()
    for name in asked.subjects or SUBJECTS:
        subject = SUBJECTS[name]
        inside = subject.seen(partial(seen_inside, json=asked.json))
        outside = subject.seen(seen_outside) if subject.traced and shutil.which("strace") else Causes()
        if asked.lines:
            totals = {cause: inside.total(cause) + outside.total(cause) for cause in (*INSIDE, *OUTSIDE)}
            counted = {cause: round(total, 1) for cause, total in totals.items() if total}
            print(encode({"subject": name, "causes": counted}).decode(), flush=True)
            continue
        print(f"\n{name}, seen from inside\n\n{table(inside, INSIDE)}")
        print(f"\n{name}, seen from outside\n\n{table(outside, OUTSIDE)}")
        for cause, events in inside.events.items() if asked.top else ():
            print(
                f"\n{cause}\n", *(f"{count:8.3g}  {event}" for event, count in events.most_common(asked.top)), sep="\n"
            )


def table(causes: Causes, columns: Sequence[str]) -> str:
    """Return a Markdown table with a row for each role, and their sum; what is 0 everywhere is left out."""
    shown = [column for column in columns if causes.total(column)]
    rows = {role: [counts[column] for column in shown] for role, counts in causes.counts.items()}
    rows = dict(sorted(rows.items(), key=lambda each: -sum(each[1]))) | {"all": [causes.total(each) for each in shown]}
    head = [f"| process | {' | '.join(shown)} |", f"|---|{'---|' * len(shown)}"]
    return "\n".join(
        [*head, *(f"| {role} | {' | '.join(map(_short, row))} |" for role, row in rows.items() if any(row))]
    )


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _carry_out(run: ScratchRun, variables: Mapping[str, str], wrapper: Sequence[str]) -> None:
    run.environ.update(variables)
    run.finished(*wrapper)


def _call(argv: Sequence[str], environ: Mapping[str, str], cwd: str | Path | None = None) -> None:
    subprocess.run(argv, env=environ, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
