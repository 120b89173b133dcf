"""`learn add`, `learn edit`, `learn forget`."""

import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeVar, get_args

import click
from msgspec import structs

from scaffold.cli.commands.learning.knowledge_stores import find_learning, places_to_write, refuse_secrets
from scaffold.cli.commands.options import json_option
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.core.errors import UsageError
from scaffold.core.knowledge import TRACES_LEFT
from scaffold.core.learning import Learning, LearningOutcome, LearningScope, Triple
from scaffold.core.printable_text import one_line
from scaffold.host.random_ids import new_id
from scaffold.plan.learning.triples import FORM, checked_triple, read_triple, triple_text
from scaffold.plan.message_text import quoted

Command = TypeVar("Command", bound=Callable[..., object])
MAX_CONCEPTS, MAX_LOG_CHARS, MAX_MODULE_CHARS = 10, 300, 300
_CONCEPT, _COMMIT = re.compile(r"\w[\w.-]{0,39}"), re.compile(r"[0-9a-fA-F]{4,64}")


def _shared_options(function: Command) -> Command:
    """Add the options that `add` and `edit` share."""
    for option in reversed(
        (
            click.option("--when", "condition", metavar="TEXT", help="WHEN it holds, in place of the text."),
            click.option("--do", "advice", metavar="TEXT", help="What to DO then."),
            click.option("--result", metavar="TEXT", help="The RESULT."),
            click.option("-c", "--concept", "concepts", metavar="CONCEPT", multiple=True, help="What it is about."),
            click.option("--scope", type=click.Choice(get_args(LearningScope)), help="Where it holds; default: repo."),
            click.option("--module", metavar="FOLDER", help="The folder in which it holds: scope `module`."),
            click.option("--outcome", type=click.Choice(get_args(LearningOutcome)), help="What following it led to."),
            click.option("--commit", metavar="COMMIT", help="A commit that shows it."),
            click.option("--log", metavar="WHERE", help="Where the log is that shows it."),
            click.option("--contradicts", metavar="LEARNING", help="A learning that says the opposite."),
        )
    ):
        function = option(function)
    return function


@click.command()
@click.argument("text", nargs=-1)
@_shared_options
@click.option("--preference", is_flag=True, help="It is what you prefer: scope `global`, for every attempt.")
@click.option("--supersedes", metavar="LEARNING", help="The learning whose place it takes.")
@json_option
def add(text: Sequence[str], *, preference: bool, supersedes: str | None, as_json: bool, **given: Any) -> None:
    """Add a learning: TEXT says `WHEN condition DO advice RESULT result`, or names a preference."""
    triple = _parse_triple(" ".join(text), given, preference=preference)
    scope, module = _resolve_scope(given, preference=preference)
    _check_evidence(given)
    refuse_secrets(*structs.astuple(triple), module, given["log"] or "")
    with places_to_write(repository=scope != "global", user=scope == "global") as places:
        now = places.clock.now()
        old = find_learning(places.stores, supersedes) if supersedes else None
        learning = Learning(
            id=new_id(),
            triple=triple,
            scope=scope,
            module=module,
            preference=preference,
            concepts=_check_concepts(given["concepts"]),
            outcome=given["outcome"],
            commit=given["commit"] or "",
            log=one_line(given["log"] or ""),
            contradicts=find_learning(places.stores, given["contradicts"]).id if given["contradicts"] else "",
            created_at=now,
            changed_at=now,
        )
        stored, is_new = places.stores.add(learning, supersedes=old)
    if as_json:
        print_json({"id": stored.id, "new": is_new})
    else:
        print_text(f"{stored.id}: {triple_text(triple)}" if is_new else f"{stored.id} says that already")


@click.command()
@click.argument("name", metavar="LEARNING")
@click.argument("text", nargs=-1)
@_shared_options
@json_option
def edit(name: str, text: Sequence[str], *, as_json: bool, **given: Any) -> None:
    """Change a learning; with another text, what was seen of it before no longer counts."""
    _check_evidence(given)
    with places_to_write(repository=False, user=False) as places:
        before = find_learning(places.stores, name)
        triple = _edited_triple(before.triple, " ".join(text), given)
        scope, module = _resolve_scope(given, preference=before.preference, before=before)
        refuse_secrets(*structs.astuple(triple), module, given["log"] or "")
        if (scope == "global") is not (before.scope == "global"):
            fix = "Add it anew with the other scope, and `scaffold learn forget` this one."
            raise UsageError("a learning of one repository cannot become a global one, nor the other way round", fix)
        after = structs.replace(
            before,
            triple=triple,
            scope=scope,
            module=module,
            concepts=_check_concepts(given["concepts"]) or before.concepts,
            outcome=given["outcome"] or before.outcome,
            commit=given["commit"] or before.commit,
            log=one_line(given["log"]) if given["log"] else before.log,
            contradicts=(
                find_learning(places.stores, given["contradicts"]).id if given["contradicts"] else before.contradicts
            ),
            changed_at=before.changed_at if triple == before.triple else places.clock.now(),
        )
        places.stores.change(after)
    if as_json:
        print_json({"id": after.id, "changed": after != before})
    else:
        print_text(f"{after.id}: {triple_text(triple)}" if after != before else f"{after.id} is as it was")


@click.command()
@click.argument("names", metavar="LEARNING...", nargs=-1, required=True)
@json_option
def forget(names: Sequence[str], *, as_json: bool) -> None:
    """Delete learnings for good; agents get them no more."""
    with places_to_write(repository=False, user=False) as places:
        # All are found before any is deleted.
        found = list({each.id: each for each in (find_learning(places.stores, name) for name in names)}.values())
        emptied = places.stores.forget(found)
    if as_json:
        print_json({"forgotten": [each.id for each in found], "log_emptied": emptied})
    else:
        print_text("\n".join(f"forgot {each.id}: {triple_text(each.triple)}" for each in found))
        if not emptied:
            print_text(TRACES_LEFT)


def _parse_triple(text: str, given: dict[str, Any], *, preference: bool) -> Triple:
    if text and (given["condition"] or given["advice"] or given["result"]):
        raise UsageError("the text and its parts are both given", "Pass the text, or --when, --do and --result.")
    if text and preference and "WHEN" not in text:
        return _require_triple(checked_triple("always", text), FORM)
    if text:
        return _require_triple(read_triple(text), FORM)
    parts = checked_triple(given["condition"] or "", given["advice"] or "", given["result"] or "")
    return _require_triple(parts, f"{FORM} Or pass --when, --do and --result.")


def _edited_triple(before: Triple, text: str, given: dict[str, Any]) -> Triple:
    if text:
        return _parse_triple(text, given, preference=False)
    changed = {name: given[name] for name in ("condition", "advice", "result") if given[name] is not None}
    return _require_triple(checked_triple(**{**structs.asdict(before), **changed}), FORM)


def _require_triple(triple: Triple | str, fix: str) -> Triple:
    if isinstance(triple, str):
        raise UsageError(f"this is no learning: {triple}", fix)
    return triple


def _resolve_scope(
    given: dict[str, Any], *, preference: bool, before: Learning | None = None
) -> tuple[LearningScope, str]:
    """Return the scope and its folder; raises UsageError if they do not fit together."""
    scope, folder = given["scope"], given["module"]
    if preference and (folder or scope not in {None, "global"}):
        raise UsageError("what you prefer is global", "Leave out --scope and --module, or --preference.")
    if folder and scope not in {None, "module"}:
        raise UsageError(f"a folder does not fit the scope `{scope}`", "Leave out --scope or --module.")
    if before is not None and scope is None and folder is None:
        return before.scope, before.module
    if folder is None and scope == "module":
        raise UsageError("the scope `module` needs a folder", "Name it: --module FOLDER.")
    return ("module", _check_folder(folder)) if folder else ("global" if preference else scope or "repo", "")


def _check_folder(text: str) -> str:
    path = PurePosixPath(one_line(text))
    if path.is_absolute() or ".." in path.parts or path == PurePosixPath() or len(text) > MAX_MODULE_CHARS:
        what = f"{quoted(text)} is no folder below the root of the repository"
        raise UsageError(what, "Write it as git does, e.g. `src/auth`.")
    return str(path)


def _check_concepts(names: Sequence[str]) -> tuple[str, ...]:
    concepts = tuple(dict.fromkeys(name.strip().removeprefix("#").casefold() for name in names))
    wrong = [each for each in concepts if not _CONCEPT.fullmatch(each)]
    if wrong or len(concepts) > MAX_CONCEPTS:
        what = f"{quoted(wrong[0])} is no name of a concept" if wrong else f"{len(concepts)} concepts are too many"
        raise UsageError(what, f"Use up to {MAX_CONCEPTS} words of letters, digits, `-`, `_` and `.`, 40 characters.")
    return concepts


def _check_evidence(given: dict[str, Any]) -> None:
    if given["commit"] and not _COMMIT.fullmatch(given["commit"]):
        raise UsageError(f"{quoted(given['commit'])} is no commit", "Give its id in hex, as `git log` shows it.")
    if given["log"] and len(given["log"]) > MAX_LOG_CHARS:
        raise UsageError("the place of the log is too long", f"Use at most {MAX_LOG_CHARS} characters.")
