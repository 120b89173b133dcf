"""Node's built-in test runner and mocha, which lend themselves to the same checks of assertions.

Both write a report of jest's shape with our own reporter; Node's runner is asked for it by NODE_OPTIONS. By the same
variable each process loads our script, which reports replaced assertions.
"""

import shlex
from pathlib import Path

from msgspec import structs

from scaffold.host.contained_path import ContainedPath
from scaffold.verify.gates.reports.jest import REPORT, unresolved_name, with_options
from scaffold.verify.gates.reports.jest import read_report as read_jest_report
from scaffold.verify.gates.reports.recorder import RECORDER_FOLDER as INJECTED
from scaffold.verify.gates.reports.runner_result import (
    MAX_BYTES,
    RunnerAdapter,
    RunnerCommand,
    RunnerEnv,
    RunnerExit,
    RunnerResult,
    UnresolvedName,
    load_failure,
    printable_test_name,
)

NODE_REPORTER = "scaffold_node_reporter.cjs"
MOCHA_REPORTER = "scaffold_mocha_reporter.cjs"
ORIGINALS = "scaffold_originals.cjs"
REPLACED = "replaced-*"
MAX_PROCESSES = 1_000
"""The most processes of a run whose replaced functions are read."""
ANY_FILE = ""
"""The name of any file that could not be loaded."""


def build_command(command: str, env: RunnerEnv) -> RunnerCommand:
    """Return the command with our reporter beside a printed TAP report; it always runs all tests."""
    reporter = _quote_option(str(_copied(NODE_REPORTER, env.folder)))
    ours = f"--test-reporter={reporter} --test-reporter-destination={_quote_option(str(env.folder / REPORT))}"
    options = f"{ours} --test-reporter=tap --test-reporter-destination=stdout {load_originals(env.folder)}"
    return RunnerCommand(command=command, variables={"NODE_OPTIONS": options})


def _copied(script: str, folder: Path) -> Path:
    # A copy in our folder, because scripts write next to themselves.
    (folder / script).write_bytes((INJECTED / script).read_bytes())
    return folder / script


def load_originals(folder: Path) -> str:
    """Return the option that makes each Node process report its replaced assertions in our folder."""
    return f"--require {_quote_option(str(_copied(ORIGINALS, folder)))}"


def read_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    return structs.replace(read_jest_report(ended), replaced=replaced_assertions(ended.env.folder))


def _quote_option(option: str) -> str:
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def replaced_assertions(folder: Path) -> tuple[str, ...]:
    """Return the assertions that any process of the run replaced; an unreadable report counts as one."""
    names: set[str] = set()
    for path in sorted(folder.glob(REPLACED))[:MAX_PROCESSES]:
        data = ContainedPath(folder, path.name).read(MAX_BYTES)
        names.update([path.name] if isinstance(data, str) else data.decode(errors="replace").split())
    return tuple(sorted(map(printable_test_name, names)))


NODE = RunnerAdapter(build_command=build_command, read_report=read_report)


def build_mocha_command(command: str, env: RunnerEnv) -> RunnerCommand:
    """Return the command with our reporter; of several reporters mocha uses the last."""
    reporter = _copied(MOCHA_REPORTER, env.folder)
    return RunnerCommand(
        command=with_options(command, "--reporter", shlex.quote(str(reporter))),
        variables={"NODE_OPTIONS": load_originals(env.folder)},
    )


def read_mocha_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    result = read_report(ended)
    if result.problem is None:
        return result
    # Mocha loads all files before it runs a test, so one that cannot be loaded ends it.
    name = unresolved_name(ended.output)
    if ended.env.stand_ins is not None:
        unresolved = {ANY_FILE: UnresolvedName(name)} if name else {}
        return structs.replace(result, problem=None, outcomes={ANY_FILE: "error"}, unresolved=unresolved)
    return load_failure("Test files failed to load", [ANY_FILE]) if name and not result.outcomes else result


MOCHA = RunnerAdapter(build_command=build_mocha_command, read_report=read_mocha_report)
