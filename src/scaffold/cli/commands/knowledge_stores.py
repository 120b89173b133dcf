"""Open the databases of `learn` and `item`, and keep secrets out of them."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from scaffold.cli.render.terminal.style import print_note
from scaffold.core.errors import ForeignState, NotInRepository, StoreEmpty, UsageError
from scaffold.core.learning import Learning
from scaffold.core.printable_text import utf8_safe
from scaffold.git.common_dir import find_common_dir, find_top
from scaffold.host.user_dirs import user_dirs
from scaffold.host.wall_clock import WallClock
from scaffold.plan.message_text import quoted
from scaffold.policy.secret.sources import redactor_for
from scaffold.run.learning.stores import LearningStores, user_store_if_any
from scaffold.store.database import Store
from scaffold.store.driver.columns import TimeSource
from scaffold.store.driver.location import existing_state_location, state_location

MAX_KNOWN = 5


class Places(NamedTuple):
    """The databases, and the time."""

    stores: LearningStores
    clock: TimeSource


@contextmanager
def places_to_read() -> Iterator[Places]:
    """Open what exists of both databases; nothing is created."""
    clock = WallClock()
    with user_store_if_any(clock) as user, _store_if_any_here(clock) as store:
        yield Places(LearningStores(store, user, user_dirs().cache), clock)


@contextmanager
def places_to_write(*, repository: bool, user: bool) -> Iterator[Places]:
    """Open both databases, creating those that are asked for; NotInRepository if that needs a repository."""
    clock = WallClock()
    with user_store_if_any(clock, create=user) as opened:
        if not repository:
            with _store_if_any_here(clock) as store:
                yield Places(LearningStores(store, opened, user_dirs().cache), clock)
            return
        with repository_store(clock) as store:
            yield Places(LearningStores(store, opened, user_dirs().cache), clock)


@contextmanager
def repository_store(clock: TimeSource) -> Iterator[Store]:
    """Open the store of the repository here; it is created if there is none."""
    place = state_location(find_common_dir(Path.cwd()), os.environ)
    with closing(Store.open(place, clock=clock)) as store:
        yield store


@contextmanager
def repository_store_if_any(clock: TimeSource) -> Iterator[Store | None]:
    """Open the store of the repository here; yield None if there is none, or someone else's, and create nothing."""
    place = existing_state_location(find_common_dir(Path.cwd()), os.environ)
    try:
        store = None if place is None else Store.open(place, clock=clock, create=False)
    except StoreEmpty:
        store = None
    except ForeignState as foreign:
        print_note(foreign.in_full)
        store = None
    with nullcontext() if store is None else closing(store):
        yield store


def _store_if_any_here(clock: TimeSource) -> AbstractContextManager[Store | None]:
    try:
        find_common_dir(Path.cwd())
    except NotInRepository:
        return nullcontext()  # the user's own learnings are read everywhere
    return repository_store_if_any(clock)


def find_learning(stores: LearningStores, name: str) -> Learning:
    """Return the learning whose id starts with `name`; raises UsageError if none does, or several do."""
    found = stores.by_prefix(utf8_safe(name.strip())) if name.strip() else ()
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(each.id for each in found[:MAX_KNOWN])
        raise UsageError(f"{quoted(name)} is the start of several learnings", f"Say which: {ids}.")
    raise UsageError(f"there is no learning {quoted(name)}", "`scaffold learn --all` lists them.")


def refuse_secrets(*texts: str) -> None:
    """Raise UsageError if one of the texts contains a secret: agents and other people will read it."""
    folders = []
    with suppress(NotInRepository):
        folders.append(find_top(Path.cwd()))
    redactor = redactor_for(os.environ, *folders)
    for text in texts:
        # A text may quote a redaction mark itself, so a mark alone shows no secret.
        if (mark := redactor.mark_in(clean := redactor.clean(text))) and clean != text:
            what = f"the text has a secret in it ({mark.removeprefix('[redacted:').removesuffix(']')})"
            raise UsageError(what, "Nothing was stored. Say it without the secret.")
