"""Prompts for the contract drafter: pure text, bounded however large the repository or the change is."""

import json
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from scaffold.core.model import Action
from scaffold.core.plan import full_text
from scaffold.core.printable_text import truncate_text
from scaffold.core.proof.contract import Contract
from scaffold.plan.text.file_format import contract_document
from scaffold.verify.paths.conventions import is_test
from scaffold.verify.paths.declared_paths import is_declared_path

TASK_CHARS = 16_000
BRIEFING_CHARS = 8_000
DIFF_CHARS = 24_000
MAX_PATHS = 60

_STRENGTHEN = """\
Now that you can see the work: what else must hold that the contract does not check? Answer with the whole contract: all
existing entries first and unchanged, then your additions. You can only add. If nothing is missing, answer with the
contract as it is."""


class DraftContext(Struct, frozen=True, kw_only=True):
    """The repository as the drafter sees it."""

    paths: tuple[str, ...]
    """All paths on the base."""
    gates: tuple[tuple[str, str], ...] = ()
    """The repository's own gates: names and commands."""


def draft_prompt(action: Action, repository: DraftContext, briefing: str) -> str:
    """Return the prompt for a contract before the work."""
    parts = [
        f"# The task: {action.key} (role: {action.role})\n{truncate_text(full_text(action), TASK_CHARS)}",
        _listed("# Effects that hold once it has landed", action.effects),
        _listed("# Files it is expected to change", action.files),
        _listed("# Gates that run anyway", (f"{name}: `{command}`" for name, command in repository.gates)),
        _listed("# At the root of the repository", _top_level(repository.paths)),
        _listed("# Paths that may matter", _relevant(repository.paths, action.files)),
        f"# What earlier attempts showed\n{truncate_text(briefing, BRIEFING_CHARS)}" if briefing else "",
        "Write the contract of this task. None of the work has been done yet.",
    ]
    return "\n\n".join(part for part in parts if part)


def refine_prompt(action: Action, draft: Contract, diff: str) -> str:
    """Return the prompt for the final contract, after the work passed its draft."""
    return "\n\n".join(
        (
            f"# The task: {action.key}\n{truncate_text(full_text(action), TASK_CHARS)}",
            f"# Its contract, which the work passes\n{fenced_json(draft)}",
            f"# The change\n```diff\n{truncate_text(diff, DIFF_CHARS)}\n```",
            _STRENGTHEN,
        )
    )


def fenced_json(contract: Contract) -> str:
    """Return a contract in the format drafters write."""
    return f"```json\n{json.dumps(contract_document(contract), indent=2, ensure_ascii=False)}\n```"


def unreadable_prompt(finding: str) -> str:
    """Return the prompt after an answer that is not a valid contract."""
    return f"That is not a valid contract: {finding}\nAnswer with one fenced JSON block, as described."


def holds_before_work_prompt(contract: Contract) -> str:
    """Return the prompt after a contract that passes before the work."""
    names = ", ".join(f"`{check.command}`" for check in contract.commands[:5])
    return (
        f"All its checks already pass before any work{f': {names}' if names else ''}, so it proves nothing. Write it "
        "so that at least one required check fails now and passes once the work is done; if no command can tell, "
        "repeat the same contract."
    )


def weakened_prompt(differences: Sequence[str]) -> str:
    """Return the prompt after a final contract that is weaker than its draft."""
    lines = "\n".join(f"- {each}" for each in differences[:20])
    return f"That is weaker than the contract, which is not allowed:\n{lines}\nRestore these entries; you can only add."


def intent_of(action: Action) -> str:
    """Return what the planner wants verified; if it does not say, the first paragraph of the description."""
    return action.verification_intent.strip() or action.description.strip().partition("\n\n")[0]


def _listed(heading: str, lines: Iterable[str]) -> str:
    every = list(lines)
    if not every:
        return ""
    more = [f"- … and {len(every) - MAX_PATHS} more"] if len(every) > MAX_PATHS else []
    return "\n".join([heading, *(f"- {line}" for line in every[:MAX_PATHS]), *more])


def _top_level(paths: Iterable[str]) -> Iterator[str]:
    """Yield the top-level names in order, folders with a slash."""
    named = (path.partition("/") for path in paths)
    yield from dict.fromkeys(f"{first}{slash}" for first, slash, _ in named)


def _relevant(paths: Sequence[str], files: Sequence[str]) -> Iterator[str]:
    """Yield the existing declared files, then the other tests."""
    yield from (path for path in paths if is_declared_path(path, files))
    yield from (path for path in paths if is_test(path) and not is_declared_path(path, files))
