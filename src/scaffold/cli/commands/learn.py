"""`learn`: what earlier work showed."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeVar, get_args

import click
from msgspec import structs

from scaffold.cli.commands.knowledge_stores import (
    Places,
    find_learning,
    places_to_read,
    places_to_write,
    refuse_secrets,
)
from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.learning_text import evidence_lines, learning_json, learning_lines, lift_line, opposites_of
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.errors import UsageError
from scaffold.core.knowledge import TRACES_LEFT
from scaffold.core.learning import Learning, LearningOutcome, LearningScope, Triple
from scaffold.core.printable_text import count_of, one_line, utf8_safe
from scaffold.host.process.async_runner import run_async
from scaffold.host.random_ids import new_id
from scaffold.plan.learning.selection import prompt_section
from scaffold.plan.learning.triples import FORM, checked_triple, read_triple, triple_text
from scaffold.plan.message_text import quoted

Command = TypeVar("Command", bound=Callable[..., object])
MAX_CONCEPTS, MAX_LOG_CHARS, MAX_MODULE_CHARS = 10, 300, 300
_CONCEPT, _COMMIT = re.compile(r"\w[\w.-]{0,39}"), re.compile(r"[0-9a-fA-F]{4,64}")
NOTHING = "Nothing was learned here yet. `scaffold learn add 'WHEN ... DO ... RESULT ...'` adds a learning."


class LearnGroup(click.Group):
    """A group that takes any words other than a command as a query."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without arguments, list everything."""
        # While a shell completes, a default command would be wrong: the user is still typing.
        return super().parse_args(ctx, args if args or ctx.resilient_parsing else [str(search.name)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the called command, or `search` for a query."""
        if args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return search.name, search, args


@click.group(
    cls=LearnGroup,
    context_settings={"ignore_unknown_options": True},
    subcommand_metavar="[QUERY | COMMAND] [ARGS]...",
    epilog="QUERY takes: --all, --evaluate, -c CONCEPT, --json.",
)
def learn() -> None:
    """Show what earlier work showed: what QUERY finds, or everything; add to it, and see what helped.

    A learning says WHEN something holds, DO something, with this RESULT. Agents get those that fit their task or their
    failure, as data. What became of their work is the evidence for it, and one that does not help is given no more.
    """


@learn.command()
@click.argument("query", nargs=-1)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Include superseded and expired ones, and those of work that has not landed.",
)
@click.option("--evaluate", is_flag=True, help="Show how much more work landed with each, leaving out runs one by one.")
@click.option("-c", "--concept", metavar="CONCEPT", help="Only those about a concept.")
@json_option
@pageable
def search(query: Sequence[str], *, everything: bool, evaluate: bool, concept: str | None, as_json: bool) -> None:
    """Search the learnings for QUERY, by words and by meaning; without words, list all."""
    with places_to_read() as places:
        words = " ".join(query)
        matching = run_async(places.stores.find(words)) if words.strip() else places.stores.all()
        found = [each for each in matching if concept is None or concept in each.concepts]
        shown = [each for each in found if everything or evaluate or _is_current(places, each)]
        if as_json:
            _print_json(places, shown)
        elif not shown:
            if found:
                print_text(f"{count_of(len(found), 'more learning')} not shown; `--all` shows them")
            elif (query or concept) and places.stores.all():
                print_text("Nothing fits; `scaffold learn` lists everything.")
            else:
                print_text(NOTHING)
        else:
            _print_shown(places, shown, evaluate=evaluate)
            if len(found) > len(shown):
                count = count_of(len(found) - len(shown), "other one")
                print_text(f"{count} not shown; `--all` shows them")


@learn.command()
@click.argument("name", metavar="LEARNING")
@json_option
def show(name: str, *, as_json: bool) -> None:
    """Show one learning with its evidence and its use."""
    with places_to_read() as places:
        learning, now = find_learning(places.stores, name), places.clock.now()
        if as_json:
            _print_json(places, [learning])
            return
        _print_shown(places, [learning], evaluate=False)
        click.echo("\n".join(evidence_lines(learning, places.stores.uses(learning), now, layout_for(sys.stdout))))
        score = places.stores.scores([learning], now)[learning.id]
        click.echo(next(lift_line(learning, score, layout_for(sys.stdout))))


@learn.command()
@json_option
def concepts(*, as_json: bool) -> None:
    """List the concepts, with how many learnings each has."""
    with places_to_read() as places:
        counts = places.stores.concepts()
    if as_json:
        print_json({"concepts": [{"name": name, "learnings": count} for name, count in counts.items()]})
    elif not counts:
        print_text("No learning has a concept yet; `scaffold learn add ... -c CONCEPT` gives it one.")
    else:
        click.echo("\n".join(f"{name}  {count_of(count, 'learning')}" for name, count in counts.items()))


@learn.command()
@click.option("-c", "--concept", metavar="CONCEPT", required=True, help="The concept.")
@json_option
def context(concept: str, *, as_json: bool) -> None:
    """Print what is known about a concept, in the form in which agents get it."""
    with places_to_read() as places:
        now = places.clock.now()
        found = [each for each in places.stores.with_concept(utf8_safe(concept)) if _is_current(places, each)]
        if as_json:
            _print_json(places, found)
        elif not found:
            print_text(f"No learning is about {quoted(concept)}; `scaffold learn concepts` lists what there is.")
        else:
            click.echo(prompt_section(found, places.stores.scores(found, now), "start"))


def _shared_options(function: Command) -> Command:
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


@learn.command()
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


@learn.command()
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


@learn.command()
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


def _is_current(places: Places, learning: Learning) -> bool:
    return learning.is_current(places.clock.now())


def _print_json(places: Places, shown: Sequence[Learning]) -> None:
    now = places.clock.now()
    scores, against = places.stores.scores(shown, now), opposites_of(places.stores.all())
    print_json({"learnings": [learning_json(each, scores[each.id], against.get(each.id, ()), now) for each in shown]})


def _print_shown(places: Places, shown: Sequence[Learning], *, evaluate: bool) -> None:
    now, layout = places.clock.now(), layout_for(sys.stdout)
    scores, against = places.stores.scores(shown, now), opposites_of(places.stores.all())
    for each in shown:
        score = scores[each.id]
        lines = (
            lift_line(each, score, layout)
            if evaluate
            else learning_lines(each, score, against.get(each.id, ()), now, layout)
        )
        click.echo("\n".join(lines))
    if evaluate:
        told = [score for score in scores.values() if score.lift is not None]
        helps, harms = (sum(each.standing == standing for each in told) for standing in ("helps", "harms"))
        print_text(
            f"{count_of(len(shown), 'learning')}: {helps} with a lift, {harms} with harm, "
            f"{len(shown) - len(told)} with too few runs"
        )


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
        raise UsageError(f"not a valid learning: {triple}", fix)
    return triple


def _resolve_scope(
    given: dict[str, Any], *, preference: bool, before: Learning | None = None
) -> tuple[LearningScope, str]:
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
        what = f"{quoted(text)} is not a folder below the repository's root"
        raise UsageError(what, "Write it as git does, e.g. `src/auth`.")
    return str(path)


def _check_concepts(names: Sequence[str]) -> tuple[str, ...]:
    concepts = tuple(dict.fromkeys(name.strip().removeprefix("#").casefold() for name in names))
    wrong = [each for each in concepts if not _CONCEPT.fullmatch(each)]
    if wrong or len(concepts) > MAX_CONCEPTS:
        what = f"{quoted(wrong[0])} is not a valid concept name" if wrong else f"{len(concepts)} concepts are too many"
        raise UsageError(what, f"Use up to {MAX_CONCEPTS} words of letters, digits, `-`, `_` and `.`, 40 characters.")
    return concepts


def _check_evidence(given: dict[str, Any]) -> None:
    if given["commit"] and not _COMMIT.fullmatch(given["commit"]):
        raise UsageError(f"{quoted(given['commit'])} is not a commit id", "Give its id in hex, as `git log` shows it.")
    if given["log"] and len(given["log"]) > MAX_LOG_CHARS:
        raise UsageError("the place of the log is too long", f"Use at most {MAX_LOG_CHARS} characters.")
