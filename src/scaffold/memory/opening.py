"""Open the databases of memories: that of the repository here, if there is one, beside the user's."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

from scaffold.core.errors import ForeignState, NotInRepository, StoreEmpty
from scaffold.core.printable_text import utf8_safe
from scaffold.git.common_dir import find_common_dir
from scaffold.host.user_dirs import user_dirs
from scaffold.host.wall_clock import WallClock
from scaffold.memory.memories import Memories, MemoryDatabases
from scaffold.memory.vector_port import Embedder
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.database import Store
from scaffold.store.driver.location import existing_state_location, state_location
from scaffold.store.user_store import UserStore, user_database


@contextmanager
def open_memories(
    cwd: Path, user: UserStore | None, redactor: Redactor, *, create: bool = False, embedder: Embedder | None = None
) -> Iterator[Memories]:
    """Open the memories of the repository around `cwd` and of the user; with `create`, its database is made.

    `embedder` computes vectors; without one, it is the model that comes with the extra `memory`, if that is installed.
    """
    with open_databases(cwd, user, create=create, embedder=embedder) as databases:
        yield Memories(databases, clock=WallClock(), redactor=redactor)


@contextmanager
def open_user_memories() -> Iterator[UserStore]:
    """Open the user's database, without what a model needs."""
    with closing(UserStore.open(user_database(user_dirs().data), clock=WallClock())) as user:
        yield user


@contextmanager
def open_databases(
    cwd: Path, user: UserStore | None, *, create: bool = False, embedder: Embedder | None = None
) -> Iterator[MemoryDatabases]:
    """Open the databases of the repository around `cwd` and of the user; with `create`, the repository's is made.

    The repository's is left out if someone else made it; with `create`, that raises ForeignState.
    """
    store, left_out, folder = None, None, cwd.absolute()
    # Outside of a repository, or before its first run, only the user's memories are there.
    with suppress(NotInRepository, StoreEmpty):
        folder = common = find_common_dir(cwd)
        find = state_location if create else existing_state_location
        if (place := find(common, os.environ)) is not None:
            try:
                store = Store.open(place, clock=WallClock(), create=create)
            except ForeignState as foreign:
                if create:
                    raise
                left_out = foreign
    with nullcontext() if store is None else closing(store):
        yield MemoryDatabases(
            store, user, user_dirs().cache, left_out=left_out, folder=utf8_safe(str(folder)), embedder=embedder
        )
