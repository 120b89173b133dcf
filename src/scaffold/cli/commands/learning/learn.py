"""`learn`: search what earlier work showed, and the group of its commands."""

import sys
from collections.abc import Sequence

import click

from scaffold.cli.commands.learning.curation import add, edit, forget
from scaffold.cli.commands.learning.knowledge_stores import Places, find_learning, places_to_read
from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.learning_text import evidence_lines, learning_json, learning_lines, lift_line, opposites_of
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.learning import Learning
from scaffold.core.printable_text import count_of, utf8_safe
from scaffold.host.process.async_runner import run_async
from scaffold.plan.learning.selection import prompt_section
from scaffold.plan.message_text import quoted

NOTHING = "Nothing was learned here yet. `scaffold learn add 'WHEN ... DO ... RESULT ...'` adds a learning."


class LearnGroup(click.Group):
    """A group that takes any words other than a command as a query."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without arguments, list everything."""
        # While a shell completes, the words so far are all there is.
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
        found = _find_learnings(places, " ".join(query), concept)
        shown = [each for each in found if everything or evaluate or _is_current(places, each)]
        if as_json:
            _print_json(places, shown)
        elif not shown:
            print_text(_nothing_found_text(places, query, concept, hidden=len(found)))
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


def _find_learnings(places: Places, query: str, concept: str | None) -> Sequence[Learning]:
    found = run_async(places.stores.find(query)) if query.strip() else places.stores.all()
    return [each for each in found if concept is None or concept in each.concepts]


def _is_current(places: Places, learning: Learning) -> bool:
    return learning.is_current(places.clock.now())


def _nothing_found_text(places: Places, query: Sequence[str], concept: str | None, *, hidden: int) -> str:
    if hidden:
        return f"{count_of(hidden, 'other one')} not shown; `--all` shows them"
    if (query or concept) and places.stores.all():
        return "Nothing fits; `scaffold learn` lists everything."
    return NOTHING


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


for _command in (add, edit, forget):
    learn.add_command(_command)
