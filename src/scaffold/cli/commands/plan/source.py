"""Read, lint and report plan files."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scaffold.cli.exit_codes import INVALID
from scaffold.cli.render.terminal.style import finding_lines, print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.request import STDIN
from scaffold.cli.specification import MARKDOWN, NO_TASKS, tasks_file, tasks_in
from scaffold.cli.wiring import repository_here
from scaffold.config.permission_settings import permission_rules
from scaffold.config.run.effective_settings import with_executor
from scaffold.config.run.executor_choice import executor_settings
from scaffold.config.settings import load_settings
from scaffold.core.errors import GitError, PlanInvalid, RepositoryError, UsageError
from scaffold.core.executor_settings import ExecutorSettings
from scaffold.core.ids import ActionKey, Commit
from scaffold.core.plan import ActionSpec, Finding, Plan, is_review_role
from scaffold.core.printable_text import count_of, join_limited
from scaffold.git.commits import listed_paths
from scaffold.git.ignored_files import ignored_declarations
from scaffold.host.process.async_runner import run_async
from scaffold.plan.analysis.lint import LintReport, lint
from scaffold.plan.source.prompt_loop import PROMPT_FILE, read_prompt_loop
from scaffold.plan.source.task import with_task_positions
from scaffold.plan.text.file_format import parse_plan
from scaffold.plan.text.parse_tree import parse_positioned, with_positions
from scaffold.plan.text.right_forms import EXAMPLES
from scaffold.verify.paths.declared_paths import named_tests

KEPT = "changed existing tests, check settings and protected files are refused unless"
MAX_NAMED = 5


class PlanCheckResult(Struct, frozen=True, kw_only=True):
    """The output of `plan check --json`, also printed by other commands for an invalid plan."""

    valid: bool
    findings: tuple[Finding, ...]
    width: int
    critical_path: tuple[str, ...]
    actions: int


class CheckedPlan(Struct, frozen=True, kw_only=True):
    """A plan file and its findings."""

    name: str
    """For messages."""
    plan: Plan | None
    """None if it cannot be read."""
    report: LintReport
    notes: tuple[str, ...] = ()
    """The format of a file that is a list of tasks, not a plan; which files its agents may not change."""

    @property
    def sound(self) -> Plan | None:
        """The plan; None if it has an error."""
        return self.plan if self.report.valid else None

    @property
    def verdict(self) -> PlanCheckResult:
        """The result for JSON output."""
        report = self.report
        return PlanCheckResult(
            valid=report.valid,
            findings=report.findings,
            width=report.width,
            critical_path=report.critical_path,
            actions=report.actions,
        )


def check_plan_file(file: str) -> CheckedPlan:
    """Read a plan or a list of tasks in a file, a folder, or standard input for `-`, and lint it.

    Raises UsageError if it is not readable.
    """
    path = file if file == STDIN else tasks_file(file)
    source = _read_content(path)
    name = "standard input" if file == STDIN else path
    try:
        text = source.decode()
        if Path(name).name == PROMPT_FILE:
            rounds = read_prompt_loop(text, name=name).max_rounds
            note = f"{name} was taken for a prompt for at most {rounds} rounds; one that changes nothing is the last"
            return CheckedPlan(name=name, plan=Plan(goals=()), report=_unreadable_report(()), notes=(note,))
        tasks = tasks_in(text, name)
        if tasks is not None:
            plan = tasks.plan()
            report = lint(plan).after((*tasks.document.warnings, *declared_but_ignored(plan)))
            report = replace(report, findings=with_task_positions(report.findings, tasks.document.tasks))
            return CheckedPlan(
                name=name, plan=plan, report=report, notes=(*tasks.notes(), *_files_notes(plan, is_list=True))
            )
        if name.endswith(MARKDOWN):
            what, fix = NO_TASKS
            unknown = Finding(
                code="unknown-format",
                severity="error",
                message=f"this is {what}",
                fix=fix,
                line=1,
                column=1,
                example=EXAMPLES["unknown-format"],
            )
            return CheckedPlan(name=name, plan=None, report=_unreadable_report((unknown,)))
        root = parse_positioned(text, name=name)
        plan, warnings = parse_plan(root, name=name)
    except UnicodeDecodeError as error:
        return CheckedPlan(name=name, plan=None, report=_unreadable_report((_not_text(source, error),)))
    except PlanInvalid as error:
        return CheckedPlan(name=name, plan=None, report=_unreadable_report(error.findings))
    report = lint(plan).after((*warnings, *declared_but_ignored(plan), *unknown_executors(plan)))
    report = replace(report, findings=with_positions(report.findings, root))
    return CheckedPlan(name=name, plan=plan, report=report, notes=_files_notes(plan, is_list=False))


def declared_but_ignored(plan: Plan) -> tuple[Finding, ...]:
    """Return an error for each declared file that git ignores in the repository here; none outside of one."""
    try:
        return run_async(ignored_declarations(repository_here().git, plan))
    except (RepositoryError, GitError):
        return ()


def unknown_executors(plan: Plan) -> Iterator[Finding]:
    """Yield an error for each action whose executor nobody knows."""
    chosen = [(goal, action) for goal in plan.goals for action in goal.actions if action.executor]
    configured = executor_settings(load_settings(Path.cwd(), os.environ, {})) if chosen else ExecutorSettings()
    for goal, action in chosen:
        try:
            with_executor(configured, action.executor)
        except UsageError as error:
            yield Finding(
                code="unknown-executor",
                severity="error",
                goal=goal.name,
                action=action.key,
                message=error.what,
                fix=error.fix,
                example=EXAMPLES["unknown-executor"],
            )


def print_invalid(examined: CheckedPlan, *, as_json: bool) -> int:
    """Print the findings of an invalid plan as `plan check` does, and return the exit code."""
    if as_json:
        print_json(examined.verdict)
    else:
        print_text("\n".join(findings_text(examined)))
    return INVALID


def findings_text(examined: CheckedPlan) -> list[str]:
    """Return the findings as lines; for an invalid plan, also the number of errors."""
    lines = [*finding_lines(examined.report.findings, examined.name)]
    if not examined.report.valid:
        errors = sum(finding.severity == "error" for finding in examined.report.findings)
        lines.append(f"{examined.name}: invalid, {count_of(errors, 'error')}")
    return lines


def _files_notes(plan: Plan, *, is_list: bool) -> tuple[str, ...]:
    changing = [each for each in plan.actions if each.kind == "primitive" and not is_review_role(each.role)]
    named = _named_tests([each for each in changing if not each.files])
    none = [each.key for each in changing if not each.files and not named.get(each.key)]
    without = f"{join_limited(none, MAX_NAMED)} {'lists' if len(none) == 1 else 'list'} none; " if none else ""
    rule = (
        (
            f"{KEPT} their agent asks first, with `request_files`",
            "  a plan file can declare them, in the `files` of an action; this format cannot",
        )
        if is_list
        else (
            f"{KEPT} their action lists them in `files`",
            f"  {without}an agent can ask for others with `request_files`",
        )
    )
    lines = [
        f"  {key} lists none, so the tests that it names, or whose subject it names, may change if a gate runs them: "
        + join_limited(tests, MAX_NAMED)
        for key, tests in named.items()
        if tests
    ]
    more = [f"  and so for {count_of(len(lines) - MAX_NAMED, 'more action')}"] if len(lines) > MAX_NAMED else []
    return (*rule, *lines[:MAX_NAMED], *more) if changing else ()


def _named_tests(actions: Sequence[ActionSpec]) -> Mapping[ActionKey, Sequence[str]]:
    """Return the existing tests that actions without files declare; none outside of a repository with a commit."""
    if not actions:
        return {}
    try:
        paths = run_async(listed_paths(repository_here().git, Commit("HEAD")))
    except (RepositoryError, GitError):
        return {}
    areas = permission_rules(load_settings(Path.cwd(), os.environ, {})).areas
    return {each.key: named_tests(each, paths, areas) for each in actions}


def _read_content(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        what = f"{file} cannot be read: {(error.strerror or str(error)).lower()}"
        raise UsageError(what, "Pass a plan file, or `-` for standard input.") from error


def _unreadable_report(findings: tuple[Finding, ...]) -> LintReport:
    return LintReport(findings=findings, width=0, critical_path=(), actions=0)


def _not_text(source: bytes, error: UnicodeDecodeError) -> Finding:
    before = source[: error.start]
    return Finding(
        code="syntax",
        severity="error",
        message=f"this is not UTF-8 text: byte 0x{source[error.start]:02x} is invalid",
        fix="Save the file as UTF-8.",
        example=EXAMPLES["syntax"],
        line=before.count(b"\n") + 1,
        column=len(before.rpartition(b"\n")[2].decode(errors="replace")) + 1,
    )
