"""Change what the user may change from a page: decide what waits, and steer runs as the commands do."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.core.ids import ActionId
from scaffold.core.model import InboxItem
from scaffold.core.printable_text import utf8_safe
from scaffold.orchestrator.user_control.inbox_decisions import DECISION_HOURS, DecidedItem, InboxDecision, decide_items
from scaffold.orchestrator.user_control.own_program import STOP_TIMEOUT_S, OwnProgram
from scaffold.store.database import Store
from scaffold.store.run.inbox_items import item_hash
from scaffold.views.store_reader import store_reader_if_any
from scaffold.web.page_frame import NotThere
from scaffold.web.user_runs import UserRuns


class Verb(Struct, frozen=True):
    """A command that a page can give, and how long it may take."""

    words: tuple[str, ...]
    timeout_s: float = STOP_TIMEOUT_S
    about: str = "run"
    """`run`, or `action`: what it is given."""


VERBS: Mapping[str, Verb] = {
    "pause": Verb(("pause",)),
    "stop": Verb(("stop",)),
    "cancel": Verb(("cancel",)),
    "retry": Verb(("retry",)),
    # `--yes`: whoever pressed the button has agreed, as at a terminal; what needs more is refused without one.
    "resume": Verb(("resume", "--yes", "--detach", "--quiet"), 300.0),
    "land": Verb(("land", "--yes"), 600.0),
    "stop-action": Verb(("stop",), about="action"),
    "retry-action": Verb(("retry",), about="action"),
    "revert": Verb(("revert",), 300.0, about="action"),
    "send": Verb(("send",), about="action"),
}


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """A decision about an item of the inbox, with the hash of what the page showed."""

    answer: str
    """`approve` or `reject`; to a question its answer."""
    hash: str
    reason: str = ""


def decide_item(runs: UserRuns, item_id: str, answer: Answer) -> DecidedItem:
    """Decide an item of the inbox as `approve`, `reject` and `answer` do, if it is what the page showed.

    Raises NotThere, UsageError for an answer that does not fit, and IllegalTransition if the item is another one now.
    """
    with runs.with_item(item_id) as (reader, _):
        root = reader.root
    # Opened anew: a state that someone else made can be shown, and may not be decided.
    with store_reader_if_any(root, runs.environ) as reader:
        if reader is None:
            raise NotThere(f"`{item_id}` is gone", "Reload the inbox.")
        item = _shown_item(reader.store, item_id, answer.hash)
        until = reader.clock.now() + timedelta(hours=DECISION_HOURS)
        [decided] = decide_items(reader.store, [item.id], _read_decision(item, answer, until))
    return decided


def _shown_item(store: Store, item_id: str, shown: str) -> InboxItem:
    item = store.inbox.get(item_id)
    if item is None or item_hash(item) != shown:
        raise IllegalTransition(f"`{item_id}` is not what the page showed any more", "Reload the page, and look again.")
    return item


def _read_decision(item: InboxItem, answer: Answer, until: datetime) -> InboxDecision:
    words, reason = utf8_safe(answer.answer).strip(), utf8_safe(answer.reason).strip()
    if item.kind == "approval":
        match words:
            case "approve":
                return InboxDecision(to="approved", words=reason or None, scope="call", valid_until=until)
            case "reject":
                return InboxDecision(to="rejected", words=reason or None, scope="run", valid_until=until)
            case _:
                raise UsageError(f"`{words[:40]}` does not decide an approval", "Send `approve` or `reject`.")
    if not words:
        raise UsageError("the answer is empty", "Write what the agent should know.")
    return InboxDecision(to="answered", words=f"{words} {reason}".strip())


class Steering:
    """Gives commands about the user's runs."""

    def __init__(self, runs: UserRuns, program: OwnProgram) -> None:
        self._runs = runs
        self._program = program

    async def give(self, verb_name: str, run_id: str, *, action_id: str = "", text: str = "") -> str:
        """Run a command about a run or an action of it, and return what it says.

        Raises NotThere, and ProgramFailed with the error of the command.
        """
        verb = VERBS.get(verb_name)
        if verb is None:
            raise NotThere(f"there is no command `{verb_name}` for a page", "Go back and reload the page.")
        with self._runs.with_run(run_id) as (reader, run):
            root, known = reader.root, reader.store.actions.get(ActionId(action_id)) if action_id else None
            if verb.about == "action" and (known is None or known.run_id != run.id):
                raise NotThere(f"run {run.id} has no such action", "Reload its page, and choose one.")
        words, stdin = self._command_words(verb, run.id, known.id if known else ""), utf8_safe(text).encode()
        return (await self._program.output(words, stdin, verb.timeout_s, cwd=_require_folder(root))).strip()

    def _command_words(self, verb: Verb, run_id: str, action_id: str) -> Sequence[str]:
        if verb.about == "run":
            return [*verb.words, "--", run_id]
        # A message on standard input: others on the machine can read the arguments of a process.
        return [*verb.words, "--run", run_id, "--", action_id, *(["-"] if verb.words == ("send",) else [])]


def _require_folder(root: Path) -> Path:
    if not root.is_dir():
        raise NotThere(f"the folder {root} is gone", "Its runs can be read and not changed.")
    return root
