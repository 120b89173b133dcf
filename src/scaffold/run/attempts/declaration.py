"""What an action may change: the files of its plan, and those granted since at its agents' request."""

from msgspec import Struct

from scaffold.core.model import Action, FileGrant
from scaffold.store.database import Store


class Declaration(Struct, frozen=True, kw_only=True):
    """The declared files of an action: paths, folders and globs.

    Worker and landing judge with the same declaration, since both read it from the store.
    """

    planned: tuple[str, ...]
    """Those of its plan; a plan's own file names are its author's consent, which grants are not."""
    grants: tuple[FileGrant, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The entries that declare everything in them, also what judges the work: the plan's, and the approved ones."""
        approved = (grant.path for grant in self.grants if grant.by != "rule")
        return tuple(dict.fromkeys((*self.planned, *approved)))

    @property
    def by_rule(self) -> tuple[str, ...]:
        """The entries granted by rule: what judges the work is not declared by them."""
        return tuple(grant.path for grant in self.grants if grant.by == "rule")

    @property
    def all(self) -> tuple[str, ...]:
        """Every path that the action may change, for what asks which actions touch the same files."""
        return tuple(dict.fromkeys((*self.files, *self.by_rule)))


def read_declaration(store: Store, action: Action) -> Declaration:
    """Return the action's declaration as it is now."""
    return Declaration(planned=action.files, grants=store.file_grants.of_action(action.id))
