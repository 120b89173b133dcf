"""What failed in a parallel run is repeated once, alone: what passes then is flaky, and does not fail the run.

A failure that only shows beside other tests says little of the change that is judged, but it is a fault to be found:
it is listed last, and the output of both tries is kept below `.ci/flaky/`. See docs/design/061-flaky-tests.md.
"""

import re
import subprocess  # noqa: TID251 - the second try is another pytest, as far from this one as it can be
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

MOST_FLAKY = 3
"""More flaky tests than these fail the run: then the machine, or the change, is at fault."""
MOST_CONFIRMED = 3
"""After so many failures that repeat, the run has failed for certain, and no more are repeated."""
CRASH_CHARS = 600
LIMIT_S = 600
"""How long a second try may take; only what hangs in spite of the limits of tests takes longer."""


class SecondTry:
    """The plugin of the process that distributes the tests of a parallel run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._kept = config.rootpath / ".ci" / "flaky"
        self._reports: dict[str, list[pytest.TestReport]] = {}
        self._flaky: dict[str, Path] = {}
        self._confirmed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the reports of what failed."""
        if report.failed:
            self._reports.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(trylast=True)  # once the workers have ended: nothing runs beside the second try
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Repeat what failed, and take what passes now from the failures."""
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED:
            return
        for nodeid in self._reports:
            if len(self._flaky) > MOST_FLAKY or len(self._confirmed) == MOST_CONFIRMED:
                break
            self._repeat(nodeid)
        if self._flaky and len(self._flaky) <= MOST_FLAKY:
            self._forgive(session)

    def _repeat(self, nodeid: str) -> None:
        self._reporter.write_line(f"\nrepeated alone: {nodeid}")
        command = [sys.executable, "-m", "pytest", "-n0", "-m", "", "-p", "no:cacheprovider", "--no-cov", nodeid]
        if (seed := self._config.getoption("randomly_seed", None)) is not None:
            command.append(f"--randomly-seed={seed}")
        try:
            second = subprocess.run(
                command,
                cwd=self._config.rootpath,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self._confirmed.append(nodeid)
            return
        output = second.stdout.decode(errors="replace")
        if second.returncode == 0 and re.search(r"\b1 passed\b", output.rstrip().rpartition("\n")[2]):
            self._flaky[nodeid] = self._keep(nodeid, output)
        else:
            self._confirmed.append(nodeid)

    def _keep(self, nodeid: str, alone: str) -> Path:
        name = re.sub(r"[^\w.-]+", "-", nodeid.rpartition("::")[2])[:80]
        folder = self._kept / f"{time.strftime('%Y%m%dT%H%M%S')}-{len(self._flaky)}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "alone.txt").write_text(alone)
        (folder / "beside-others.txt").write_text("\n".join(_text(nodeid, self._reports[nodeid])))
        return folder

    def _forgive(self, session: pytest.Session) -> None:
        stats = self._reporter.stats
        for nodeid in self._flaky:
            for category in ("failed", "error"):
                stats[category] = [each for each in stats.get(category, []) if each.nodeid != nodeid]
            session.testsfailed -= len(self._reports[nodeid])
            stats.setdefault("flaky", []).append(self._reports[nodeid][0])
        if session.testsfailed == 0:
            session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # below everything else
    def pytest_terminal_summary(self) -> Iterator[None]:
        """List the flaky tests last."""
        yield
        if not self._flaky:
            return
        reporter = self._reporter
        reporter.section("flaky: failed beside other tests, passed alone", yellow=True)
        for nodeid, folder in self._flaky.items():
            # The folder may be out of reach for who reads this.
            reporter.write_line(f"{nodeid}\n    {_crash_line(self._reports[nodeid][0])}")
            reporter.write_line(f"    both outputs: {folder.relative_to(self._config.rootpath)}")
        if len(self._flaky) > MOST_FLAKY:
            reporter.write_line(f"These are more than {MOST_FLAKY}, so the run failed.", red=True)

    @property
    def _reporter(self) -> TerminalReporter:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, TerminalReporter)
        return reporter


def _crash_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join((crash.message if crash is not None else report.longreprtext[-CRASH_CHARS:]).split())[:CRASH_CHARS]


def _text(nodeid: str, reports: list[pytest.TestReport]) -> Iterator[str]:
    yield nodeid
    for report in reports:
        yield f"\n== {report.when} ({report.duration:.1f} s)\n{report.longreprtext}"
        yield from (f"-- {title}\n{content}" for title, content in report.sections)
