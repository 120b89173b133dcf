"""What agents are told of earlier work: the databases it is in, and the notes for turns that plan."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from scaffold.core.errors import StoreError
from scaffold.core.learning import Learning
from scaffold.core.model import Run
from scaffold.plan.learning.matching import Situation, matches
from scaffold.plan.learning.selection import prompt_section, select
from scaffold.run.context import RunContext
from scaffold.run.learning.stores import LearningStores, user_store_if_any
from scaffold.run.notices import warn


@contextmanager
def told_stores(context: RunContext, run: Run) -> Iterator[LearningStores]:
    """Open the databases; if the user's is unusable, warn in the run and continue without it."""
    with ExitStack() as opened:
        user = None
        try:
            user = opened.enter_context(user_store_if_any(context.clock))
        except StoreError as error:
            tell_unusable(context, run, error)
        yield LearningStores(context.store, user, context.cache)


def tell_unusable(context: RunContext, run: Run, error: StoreError) -> None:
    """Warn once in a run that the user's own learnings are not used."""
    warn(context, run.id, f"Your own learnings are not used: {error.what}.")


def with_notes_for_planning(context: RunContext, run: Run, prompt: str, *about: str) -> str:
    """Return the prompt of a turn that plans, with the learnings that fit what it is `about`.

    Nothing is withheld and no use is recorded: that a plan has landed says nothing about one note.
    """
    with told_stores(context, run) as stores:
        return _with_notes(context, run, prompt, about, stores, ())


async def with_notes_by_meaning(context: RunContext, run: Run, prompt: str, about: str) -> str:
    """Return the same with learnings that are near in meaning, too: for the process that plans a request.

    Not for workers and supervisors: there are many of them, and each would load the embedding model.
    """
    with told_stores(context, run) as stores:
        near = await stores.near(about) if run.settings.learning.tokens else ()
        return _with_notes(context, run, prompt, (about,), stores, near)


def _with_notes(
    context: RunContext,
    run: Run,
    prompt: str,
    about: Sequence[str],
    stores: LearningStores,
    near: Sequence[tuple[Learning, float]],
) -> str:
    tokens = run.settings.learning.tokens
    if not tokens:
        return prompt
    now, situation = context.clock.now(), Situation("\n".join(about))
    found = {each.id: each for each in (*stores.candidates(situation), *(each for each, _ in near))}
    current = [each for each in found.values() if each.is_current(now)]
    scores = stores.scores(current, now)
    fitting = matches(current, situation, {each.id: cosine for each, cosine in near})
    given = select(fitting, scores, tokens=tokens, decided=dict.fromkeys(found, True)).given
    section = context.redactor.clean(prompt_section(given, scores, "start"))
    return f"{prompt}\n\n{section}" if section else prompt
