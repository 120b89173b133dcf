"""What the drafter of contracts is told: pure text, bounded however large the repository or the change is."""

import json
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from scaffold.core.contract import Contract
from scaffold.core.model import Action
from scaffold.plan.planfile import contract_document
from scaffold.verify.declaration import declared
from scaffold.verify.testlike import is_test
from scaffold.worker.context import clip

TASK_CHARS = 16_000
BRIEFING_CHARS = 8_000
DIFF_CHARS = 24_000
MOST_PATHS = 60
INTENT = "To be verified: "
"""How a description leads in what its planner wanted verified."""

_STRENGTHEN = """\
Now that the work can be seen: what else would have to hold that the contract does not ask? Answer with the whole
contract, all that stands in it unchanged and first, then what you add. You can only add. If nothing is missing, answer
with the contract as it is."""


class Backdrop(Struct, frozen=True, kw_only=True):
    """What a contract is written for."""

    paths: tuple[str, ...]
    """All there are on the base."""
    gates: tuple[tuple[str, str], ...] = ()
    """What checks the repository anyway: names and commands."""


def draft_prompt(action: Action, backdrop: Backdrop, briefing: str) -> str:
    """Return the question for a contract before the work."""
    parts = [
        f"# The work: {action.key} (role: {action.role})\n{clip(action.description, TASK_CHARS)}",
        _listed("# Effects that hold once it has landed", action.effects),
        _listed("# Files it means to touch", action.files),
        _listed("# What is checked besides, without you", (f"{name}: `{command}`" for name, command in backdrop.gates)),
        _listed("# At the top of the repository", _top(backdrop.paths)),
        _listed("# Paths that may matter", _relevant(backdrop.paths, action.files)),
        f"# What earlier attempts showed\n{clip(briefing, BRIEFING_CHARS)}" if briefing else "",
        "Write the contract of this work. Nothing of it is there yet.",
    ]
    return "\n\n".join(part for part in parts if part)


def refine_prompt(action: Action, draft: Contract, diff: str) -> str:
    """Return the question for the final contract, once the work has passed its draft."""
    return "\n\n".join(
        (
            f"# The work: {action.key}\n{clip(action.description, TASK_CHARS)}",
            f"# Its contract, which it passes\n{fenced(draft)}",
            f"# What was changed\n```diff\n{clip(diff, DIFF_CHARS)}\n```",
            _STRENGTHEN,
        )
    )


def fenced(contract: Contract) -> str:
    """Return a contract as its drafter writes it."""
    return f"```json\n{json.dumps(contract_document(contract), indent=2, ensure_ascii=False)}\n```"


def unreadable(finding: str) -> str:
    """Return the words for an answer that is no contract."""
    return f"That cannot be used as a contract: {finding}\nAnswer with one fenced block of JSON, as described."


def telling_nothing(contract: Contract) -> str:
    """Return the words for a contract that holds before the work."""
    names = ", ".join(f"`{check.command}`" for check in contract.commands[:5])
    return (
        f"All of it holds already, before any work{f': {names}' if names else ''}. It does not tell the work from "
        "nothing. Write it so that at least one required check fails now and passes once the work is done; if no "
        "command can tell, answer with the same again."
    )


def weaker(differences: Sequence[str]) -> str:
    """Return the words for a final contract that asks for less than its draft."""
    told = "\n".join(f"- {each}" for each in differences[:20])
    return f"That asks for less than the contract did, which cannot be:\n{told}\nPut these back as they were; only add."


def intent_of(action: Action) -> str:
    """Return what an action's planner wanted verified; without a word about it, what it is about."""
    _, said, intent = action.description.rpartition(INTENT)
    return intent.strip() if said else action.description.strip().partition("\n\n")[0]


def _listed(heading: str, lines: Iterable[str]) -> str:
    every = list(lines)
    if not every:
        return ""
    more = [f"- … and {len(every) - MOST_PATHS} more"] if len(every) > MOST_PATHS else []
    return "\n".join([heading, *(f"- {line}" for line in every[:MOST_PATHS]), *more])


def _top(paths: Iterable[str]) -> Iterator[str]:
    """Yield what is at the top, folders with a slash, in order."""
    named = (path.partition("/") for path in paths)
    yield from dict.fromkeys(f"{first}{slash}" for first, slash, _ in named)


def _relevant(paths: Sequence[str], files: Sequence[str]) -> Iterator[str]:
    """Yield what is there of the declared files, then the tests."""
    yield from (path for path in paths if declared(path, files))
    yield from (path for path in paths if is_test(path) and not declared(path, files))
