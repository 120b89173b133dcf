"""The system prompt of the agent that works in an attempt, whoever it is."""

from scaffold.agent.instruction_files import find_instructions
from scaffold.agent.journal import JournalFile
from scaffold.agent.prompts import (
    Notice,
    auditor_prompt,
    ignore_notice,
    step_prompt_rules,
    with_instructions,
    worker_prompt,
)
from scaffold.agent.skills import skills_section
from scaffold.run.attempts.assignment import Assignment
from scaffold.verify.contract.review_verdict import is_audit, is_review
from scaffold.worker.agent.worker_tools import custom_role
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.workspace.workplace import Workplace


def system_prompts(place: Workplace, records: AttemptRecords, journal: JournalFile) -> tuple[str, str]:
    """Return the system prompt of an attempt's agent, and the one for a small model."""

    # A custom prompt that cannot be used falls back to the built-in one, with one warning in the run.
    def notice(text: str) -> None:
        journal.note("notice", text=text)
        records.warn(text)

    instructions = find_instructions(place.workspace.path, home=place.workspace.path)
    for each in instructions:
        if each.notice:
            notice(each.notice)
    skills = skills_section(records.task.run.settings.extensions.skills)

    def prompt(tell: Notice, *, short: bool) -> str:
        text = "\n\n".join(filter(None, (_role_prompt(records.task, tell, short=short), skills)))
        return journal.redactor.clean(with_instructions(text, instructions, short=short))

    return prompt(notice, short=False), prompt(ignore_notice, short=True)


def _role_prompt(task: Assignment, notice: Notice, *, short: bool) -> str:
    action, folders = task.action, task.run.settings.planning.prompts
    if action.method == "story":
        return step_prompt_rules(short=short)
    if is_audit(action):
        return auditor_prompt(folders, notice)
    role, reviews = custom_role(task), is_review(action)
    given = role.prompt if role else ""
    return worker_prompt(action.role, reviews=reviews, folders=folders, notice=notice, given=given, short=short)
