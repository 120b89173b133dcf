"""Run one command, and run it again each time it is killed or crashes.

The arguments of this script are the command. Each time these options are added to it: `--report N`, a descriptor that
it writes lines to; after a death `--after CODE`, the exit code of the one before, or its negated signal; and
`--give-up` after `LIMIT` deaths in a row without progress: the command then only records that it is over.

The command writes `started` at its start, `progress TEXT` once it works, and `ended` before it ends as it was meant to.
It is not run again after `ended`, after the exit codes 0 and 130, after a signal that asks a process to end (SIGINT,
SIGTERM, SIGHUP), or if it never started. A death is without progress if none was reported, or the same as before.

The command leads its own session. If this process is ended, the command continues, and is not run again. This is a
separate script that imports little, because it stays in memory as long as the command runs.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` would add a megabyte
import os
import select
import sys

LIMIT = 10
"""How often in a row the command may die without progress."""
PAUSES_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Seconds before it is run again, by the number of deaths without progress; the last one for higher numbers."""
WANTED = (0, 130, -signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP)
"""Exit codes and signals of a command that was asked to end."""
PROGRESS = "progress "
MAX_REPORT_BYTES = 4096


def main(command: list[str]) -> None:
    """Run `command` until it ends as it was meant to, or has died too often."""
    progress, deaths, has_started = "", 0, False
    options: list[str] = []
    while True:
        code, report = _run_once([*command, *options])
        now = next((line.removeprefix(PROGRESS) for line in report if line.startswith(PROGRESS)), "")
        has_started = has_started or bool(report)
        if "ended" in report or code in WANTED or not has_started:
            return
        deaths = deaths + 1 if now in {"", progress} else 0
        progress = now or progress
        if deaths > LIMIT:  # it died even as it gave up
            return
        options = ["--after", str(code), *(["--give-up"] if deaths == LIMIT else [])]
        select.select([], [], [], PAUSES_S[min(deaths, len(PAUSES_S) - 1)])


def _run_once(command: list[str]) -> tuple[int, list[str]]:
    """Run the command to its end; return its exit code or negated signal, and the lines it reported."""
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    os.set_blocking(reader, False)
    try:
        pid = os.posix_spawn(
            command[0],
            [*command, "--report", str(writer)],
            os.environ,
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
        )
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        try:
            return code, os.read(reader, MAX_REPORT_BYTES).decode(errors="replace").splitlines()
        except BlockingIOError:  # it reported nothing
            return code, []
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", flush=True)
        return -signal.SIGKILL, []
    finally:
        os.close(reader)
        os.close(writer)


if __name__ == "__main__":
    main(sys.argv[1:])
