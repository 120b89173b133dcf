"""`init`: examine a repository, try its checks once, write a configuration, and suggest a first plan."""

import difflib
import json
import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import click
from msgspec import Struct

from scaffold.cli.commands.options import json_option
from scaffold.cli.execution.trial import confinement_text, run_trial
from scaffold.cli.exit_codes import INTERRUPTED, OK
from scaffold.cli.render.init_text import HEADER, configuration_text, found_lines, labelled, problem_lines, result_lines
from scaffold.cli.render.terminal.style import heading, is_terminal, print_json
from scaffold.cli.render.terminal.text_layout import confirm, layout_for, print_text
from scaffold.config.settings import PROJECT_FILES, load_settings
from scaffold.config.settings_file import read_text
from scaffold.core.errors import TrustError, UsageError
from scaffold.core.ids import Commit
from scaffold.core.printable_text import one_line, printable
from scaffold.core.proof.gates import GateKind
from scaffold.git.refs import resolve
from scaffold.git.repository import Repository, open_repository
from scaffold.host.contained_path import ContainedPath
from scaffold.host.process.async_runner import run_async
from scaffold.policy.secret.command_environment import command_environment
from scaffold.run.trial.gate_verdicts import GateTrial, Trial
from scaffold.verify.environment.check_programs import missing_programs
from scaffold.verify.gates.detection import DetectedGates, detect_at_commit, detect_in_folder
from scaffold.verify.gates.projects.project import ProjectKind

AGENT_PROGRAMS = ("claude", "codex")
KEY_VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
CHANGES = ("status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=dirty")
"""Lists what differs from the commit; git does not enter submodules, whose configuration it would obey."""
CONFIGURATION = PROJECT_FILES[0]
COMMENT_COLUMNS = 38
"""Of the comment in the first plan, without its mark."""
NOTES = ("NOTES.md", "HOW_TO_TEST.md", "FIRST_STEPS.md")
"""The first one that is not there yet is what the first plan writes."""
ANOTHER_COMMAND = "another command, or `off`: `scaffold config quality_gates.KIND COMMAND`; set-up commands: `setup`"
NOT_COMMITTED = "these checks are in files that are not committed: commit them first, because runs start from a commit"
NO_COMMIT = "there is no commit yet, and runs start from one: commit first"
DIFFERENT = "your uncommitted changes would change this; a run starts from the last commit"
NETWORK = "Set-up may use the network."
NOTHING_RUN = "nothing was run: `scaffold init --yes` tries these commands once, in a sandbox and a temporary worktree"


class ProjectScan(Struct, frozen=True, kw_only=True):
    """The findings of `init`."""

    type: ProjectKind
    gates: Mapping[Literal["setup"] | GateKind, str]
    """Commands that prepare and check the project, by kind; missing kinds were not found."""
    sources: Mapping[GateKind, str]
    """The project's own file that a check was taken from, by kind; the others follow from configuration."""
    advisory: tuple[GateKind, ...]
    """Checks that only warn, because the project's own set-up never runs them."""
    agents: tuple[str, ...]
    """Agent programs on PATH."""
    keys: tuple[str, ...]
    """Names of variables that hold a provider's key; never their values."""


class Examination(Struct, frozen=True, kw_only=True):
    """A repository and what was found in it."""

    repository: Repository
    head: Commit | None
    """The commit that runs would start from; None before the first one."""
    detection: DetectedGates
    committed: bool
    """Whether what was found is in that commit, so that it can be tried."""
    notes: tuple[str, ...]
    missing: Sequence[str]
    """The programs that its set-up needs and that are not on PATH."""

    @property
    def findings(self) -> ProjectScan:
        """The findings, by kind."""
        return project_scan(self.detection, os.environ)

    @property
    def can_be_tried(self) -> bool:
        """Whether there is anything to run."""
        return self.committed and bool(self.detection.gates or self.detection.setup)


PLAN_TEMPLATE = """\
version: 1
goals:
  - name: first-steps
    description: Land one small change that passes its checks.
    goal_state: [notes_written]
    actions:
      - key: notes
        description: Write {notes} about this project and how to test it.
        role: documentation
        effects: [notes_written]
        files: [{notes}]
        contract:
          intent: The notes exist{intact}.
          must_exist: [{notes}]
"""


@click.command()
@click.option("--yes", "agreed", is_flag=True, help="Try the commands found and write the configuration, unasked.")
@click.option("--force", is_flag=True, help="Replace an existing configuration.")
@click.option("--dry-run", is_flag=True, help="Run nothing and write nothing.")
@json_option
def init(*, agreed: bool, force: bool, dry_run: bool, as_json: bool) -> int:
    """Find this repository's checks, try them once, and write `.scaffold.yaml`.

    Shows each check and set-up command with the file and line that says so. After a yes they run once, in a sandbox and
    a temporary worktree; your checkout is not touched. After a second yes the configuration is written. Without a
    terminal and without `--yes` nothing is run, and the configuration consists of comments.
    """
    try:
        _init_project(agreed=agreed, force=force, dry_run=dry_run, as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        print_text("\ninterrupted: the configuration was not written, and nothing else is left", err=True)
        return INTERRUPTED
    return OK


def _init_project(*, agreed: bool, force: bool, dry_run: bool, as_json: bool) -> None:
    found = run_async(_examine_repository())
    if not as_json:
        click.echo("\n".join(_summary_lines(found)))
    asking = not (agreed or dry_run or as_json) and is_terminal(sys.stdin, sys.stderr)
    trial = _try_commands(found, agreed=agreed and not dry_run, asking=asking, as_json=as_json)
    text = configuration_text(found.detection, trial)
    path = found.repository.root / CONFIGURATION
    written = not dry_run and _may_write(path, text, force=force, asking=asking)
    if written:
        try:
            ContainedPath(found.repository.root, CONFIGURATION).write(text.encode())
        except OSError as error:
            what = f"{path} cannot be written: {error.strerror}"
            raise UsageError(what, "Make the folder writable, or use `--dry-run`.") from error
    if as_json:
        print_json(_report_json(found, trial) | {"configuration": str(path), "written": written})
        return
    if written:
        print_text(f"wrote {path}", err=True)
    elif dry_run or not os.path.lexists(path):
        print_text(f"{path} was not written", err=True)
    else:
        print_text(f"{path} exists and was not changed; `--force` replaces it", err=True)
    click.echo(f"\nA first plan; save it as plan.yaml:\n\n{first_plan(found, trial)}")
    model = "" if load_settings(found.repository.root, os.environ, {}).text("model") else " --model MODEL"
    trust = "  scaffold trust                  # so that the configuration counts\n" if written else ""
    trust += "" if found.head else "  git add -A && git commit        # a run starts from a commit\n"
    click.echo(f"Next\n{trust}  scaffold plan check plan.yaml\n  scaffold run --plan plan.yaml{model}")


async def _examine_repository() -> Examination:
    repository = await open_repository(Path.cwd(), environ=os.environ)
    head = await resolve(repository.git, "HEAD")
    in_files = detect_in_folder(repository.root)
    at_head = await detect_at_commit(repository.git, head) if head else None
    if at_head is None or not (at_head.gates or at_head.setup):
        found, notes = in_files, (NOT_COMMITTED,) if in_files.gates or in_files.setup else ()
        notes = notes if head else (NO_COMMIT,)
    else:
        changes = (await repository.git(*CHANGES)).out
        differs = changes and (at_head.gates, at_head.setup) != (in_files.gates, in_files.setup)
        found, notes = at_head, (DIFFERENT,) if differs else ()
    missing = await missing_programs(found.setup, repository.git, command_environment(os.environ))
    return Examination(
        repository=repository, head=head, detection=found, committed=found is at_head, notes=notes, missing=missing
    )


def _summary_lines(found: Examination) -> list[str]:
    findings, root, layout = found.findings, found.repository.root, layout_for(sys.stdout)
    at = f" at {found.head[:8]}" if found.head and found.committed else ""
    lines = [heading(printable(f"{root.name}: {findings.type} project{at}")), *found_lines(found.detection)]
    for program in found.missing:
        lines += labelled("missing", f"`{program}` is not installed, or not on PATH")
    if findings.gates:
        lines += layout.prose("  ", ANOTHER_COMMAND)
    if "test" not in findings.gates:
        lines += layout.prose("  ", "no tests were found: give the actions of your plans contracts with checks")
    lines += labelled("agents", ", ".join(findings.agents) or "no other agent program on PATH")
    lines += labelled("keys", ", ".join(findings.keys) or "no API key of a provider in the environment")
    return lines + [line for note in found.notes for line in labelled("note", note)]


def _try_commands(found: Examination, *, agreed: bool, asking: bool, as_json: bool) -> Trial | None:
    if found.head is None or not found.can_be_tried:
        return None
    if not agreed and not asking:
        print_text(NOTHING_RUN, err=True)
        return None
    where = run_async(confinement_text(found.repository))
    if where:
        asked = f"Run these commands once, {where} and in a temporary worktree of {found.head[:8]}? {NETWORK}"
        if not agreed:
            click.echo(err=True)
            if not confirm(asked):
                return None
        print_text(f"\nrunning each command once, {where}", err=True)

    def show(result: GateTrial) -> None:
        if not as_json:
            click.echo("\n".join(result_lines(result)))

    try:
        trial = run_async(run_trial(found.repository, found.head, found.detection, on_result=show))
    except TrustError as refused:
        print_text(f"nothing was run: {refused.in_full}", err=True)
        return None
    if trial.problem and not as_json:
        click.echo("\n".join(problem_lines(trial)))
    return trial


def _may_write(path: Path, text: str, *, force: bool, asking: bool) -> bool:
    # A dangling link counts as a file, which `exists` would not see.
    exists = os.path.lexists(path)
    if force or not asking:
        return force or not exists
    if not exists:
        # Only what it sets: the comments about other settings would hide that.
        _print_file_lines(text.removeprefix(HEADER).strip() if text != HEADER else "(only comments)")
        return confirm(f"Write this to {os.path.relpath(path)}?", default=True)
    try:
        before = read_text(path)
    except UsageError:
        before = ""
    if before == text:
        return False
    changes = "".join(difflib.unified_diff(before.splitlines(keepends=True), text.splitlines(keepends=True), n=0))
    _print_file_lines(changes)
    return confirm(f"{os.path.relpath(path)} exists. Replace it, as shown?")


def _print_file_lines(text: str) -> None:
    # Lines that are wider than the terminal continue below, indented.
    lines = (line for each in text.splitlines() for line in layout_for(sys.stderr).wrap("", each, hang=4))
    click.echo("\n".join(["", *lines, ""]), err=True)


def _report_json(found: Examination, trial: Trial | None) -> dict[str, object]:
    detection = found.detection
    results = {each.name: each for each in trial.gates} if trial else {}
    return {
        "findings": found.findings,
        "commit": found.head if found.committed else None,
        "setup": [{"command": each, "from": detection.reasons.get(each)} for each in detection.setup],
        "missing": found.missing,
        "checks": [
            {
                "name": gate.name,
                "kind": gate.kind,
                "command": gate.command,
                "folder": gate.folder,
                "advisory": gate.advisory,
                "from": detection.reasons.get(gate.name),
                "result": results.get(gate.name),
            }
            for gate in detection.gates
        ],
        "tried": trial is not None,
        "problem": trial.problem if trial else "",
        "output": trial.output if trial else "",
        "notes": [*detection.notes, *found.notes],
        "plan": first_plan(found, trial),
    }


def first_plan(found: Examination, trial: Trial | None) -> str:
    """Return a plan of one harmless action, checked by the tests of the project if they pass before it."""
    test, tried = (
        found.findings.gates.get("test"),
        [each for each in trial.gates if each.kind == "test"] if trial else [],
    )
    notes = next(name for name in NOTES if not os.path.lexists(found.repository.root / name) or name == NOTES[-1])
    told = "; ".join(one_line(each.summary) for each in tried)
    passes = all(each.verdict == "passes" for each in tried)
    text = PLAN_TEMPLATE.format(notes=notes, intact=", and nothing else broke" if test and passes else "")
    if test and passes:
        text += f"          commands:\n            - command: {json.dumps(test)}\n              timeout_s: 600\n"
    if trial is None:
        said = "Not tried: `scaffold init --yes` does."
    elif passes:
        said = f"Its command was run once at {trial.commit[:8]}, before the work: {told}."
    else:
        said = f"Without the project's tests, which were run once at {trial.commit[:8]}: {told}."
    # Narrow at every width, as it is copied, and compared with what a pipe has.
    lines = textwrap.wrap(said, COMMENT_COLUMNS, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines) + text if test else text


def project_scan(detection: DetectedGates, environ: Mapping[str, str]) -> ProjectScan:
    """Return the detected gates by kind, and the findings about the environment."""
    commands: dict[Literal["setup"] | GateKind, list[str]] = {"setup": list(detection.setup)} if detection.setup else {}
    for gate in detection.gates:
        there = f"(cd {shlex.quote(gate.folder)} && {gate.command})" if gate.folder else gate.command
        commands.setdefault(gate.kind, []).append(there)
    return ProjectScan(
        type=detection.kind,
        gates={kind: " && ".join(several) for kind, several in commands.items()},  # to be run in the root folder
        sources={gate.kind: detection.sources[gate.name] for gate in detection.gates if gate.name in detection.sources},
        advisory=tuple(gate.kind for gate in detection.gates if gate.advisory),
        agents=tuple(name for name in AGENT_PROGRAMS if shutil.which(name, path=environ.get("PATH", ""))),
        keys=tuple(name for name in KEY_VARIABLES if environ.get(name)),
    )
