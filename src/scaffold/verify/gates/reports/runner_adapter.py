"""The adapter of a test runner: how to request a report, and how to read it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.verify.gates.reports.runner_result import RunnerResult


class StandInsOrder(Struct, frozen=True, kw_only=True):
    """What a runner has to know to run tests of an older version: which files they are, and which modules are gone."""

    top: str
    """Absolute path of the checkout's top."""
    tests: tuple[str, ...]
    """All Python files of tests and their helpers, relative to the top."""
    removed: tuple[str, ...]
    """The dotted names under which removed modules may have been imported."""


class RunnerEnv(Struct, frozen=True, kw_only=True):
    """The surroundings of one run."""

    folder: Path
    """Our own folder for reports: initially empty, outside the checkout, writable for the command."""
    cwd: Path
    """The working directory of the command; test files are relative to it."""
    environ: Mapping[str, str]
    only: tuple[str, ...] = ()
    """Names of the tests or files to run; empty for all."""
    stand_ins: StandInsOrder | None = None
    """Set if the tests are of an older version than the code, so that a file that cannot be loaded is no problem."""

    @property
    def whole(self) -> bool:
        """Whether all tests run."""
        return not self.only


class RunnerCommand(Struct, frozen=True, kw_only=True):
    """The command that runs instead of a gate's command."""

    command: str
    variables: Mapping[str, str] = {}
    key: bytes = b""
    """The key that signs the report; empty if it is not signed."""


class RunnerExit(Struct, frozen=True, kw_only=True):
    """The outcome of a process that exited or timed out."""

    env: RunnerEnv
    command: RunnerCommand
    exit_code: int | None
    stdout: bytes
    stderr: bytes

    @property
    def output(self) -> bytes:
        """Everything it printed, stdout first."""
        return self.stdout + self.stderr


def no_running_tests(_: RunnerExit) -> tuple[str, ...]:
    """Return no tests: the runner does not report which one is running."""
    return ()


class RunnerAdapter(Struct, frozen=True, kw_only=True):
    """How to run one kind of test runner and read its report."""

    build_command: Callable[[str, RunnerEnv], RunnerCommand]
    read_report: Callable[[RunnerExit], RunnerResult]
    unfinished_tests: Callable[[RunnerExit], tuple[str, ...]] = no_running_tests
    """Returns the tests that had started and not finished, at a timeout or a crash."""
    reports_on_output: bool = False
    """Whether the report is the output itself, so that all of it is needed."""
    selects_exactly: bool = False
    """Whether it runs exactly the selected tests; results of other runners are filtered."""
