"""Mocha: our own reporter writes a report of jest's shape into our folder, for any version of mocha.

It always runs all tests. As for Node's own runner, a script of ours tells which assertions were replaced.
"""

import shlex

from msgspec import structs

from scaffold.verify.gates.reports.javascript_errors import unresolved_name
from scaffold.verify.gates.reports.jest import read_report as read_jest_report
from scaffold.verify.gates.reports.jest import with_options
from scaffold.verify.gates.reports.node_runner import ANY_FILE, load_originals, replaced_assertions
from scaffold.verify.gates.reports.recorder import RECORDER_FOLDER as INJECTED
from scaffold.verify.gates.reports.runner_adapter import RunnerAdapter, RunnerCommand, RunnerEnv, RunnerExit
from scaffold.verify.gates.reports.runner_result import RunnerResult, UnresolvedName

REPORTER = "scaffold_mocha_reporter.cjs"


def build_command(command: str, env: RunnerEnv) -> RunnerCommand:
    """Return the command with our reporter; of several reporters mocha uses the last."""
    # A copy in our folder, because it writes next to itself.
    reporter = env.folder / REPORTER
    reporter.write_bytes((INJECTED / REPORTER).read_bytes())
    return RunnerCommand(
        command=with_options(command, "--reporter", shlex.quote(str(reporter))),
        variables={"NODE_OPTIONS": load_originals(env.folder)},
    )


def read_report(ended: RunnerExit) -> RunnerResult:
    """Return the result of a run that was not killed."""
    result = read_jest_report(ended)
    if ended.env.stand_ins is not None and result.problem is not None:
        # Mocha loads all files before it runs a test, so one that cannot be loaded ends it.
        name = unresolved_name(ended.output.decode(errors="replace"))
        unresolved = {ANY_FILE: UnresolvedName(name)} if name else {}
        result = structs.replace(result, problem=None, outcomes={ANY_FILE: "error"}, unresolved=unresolved)
    return structs.replace(result, replaced=replaced_assertions(ended.env.folder))


MOCHA = RunnerAdapter(build_command=build_command, read_report=read_report)
