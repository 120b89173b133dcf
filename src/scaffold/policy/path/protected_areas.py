"""Protected areas: parts of a repository in which changes need extra review."""

import re

from msgspec import Struct

from scaffold.core.run_settings import ExtraProtectedAreas
from scaffold.policy.path.globs import matches

AREA_GLOBS: tuple[str, ...] = (
    *("**/auth/**", "**/security/**", "**/migrations/**", "**/infra/**", "**/secrets/**"),
    *("**/.env*", "**/credentials*", "**/Dockerfile", "**/docker-compose*", "**/*.pem", "**/*.key"),
)
AREA_WORDS: tuple[str, ...] = (
    *("auth", "login", "password", "token", "secret", "key", "migration", "schema", "permission", "role", "acl"),
)
"""Whole words in a path, singular or plural: `acl` matches `user_acl.py`, not `dataclasses.py`."""
AREA_TYPES: tuple[str, ...] = (".sql", ".tf")

# Words are split at capitals and digits as well: `userAcl`, `ACLList` and `acl2` contain the word `acl`.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class ProtectedAreas(Struct, frozen=True, kw_only=True):
    """The protected areas of one repository: globs, words and file extensions."""

    globs: tuple[str, ...] = AREA_GLOBS
    words: tuple[str, ...] = AREA_WORDS
    types: tuple[str, ...] = AREA_TYPES

    @classmethod
    def with_added(cls, added: ExtraProtectedAreas) -> "ProtectedAreas":
        """Return the default areas plus those from the configuration."""
        return cls(
            globs=(*AREA_GLOBS, *added.globs), words=(*AREA_WORDS, *added.words), types=(*AREA_TYPES, *added.types)
        )

    def area_of(self, path: str) -> str | None:
        """Return the glob, word or extension that protects `path` (relative, with `/`); None without one."""
        folded = path.casefold()
        for glob in self.globs:
            if matches(glob.casefold(), folded):
                return glob
        for ending in self.types:
            if folded.endswith(ending):
                return ending
        found = {word.casefold() for segment in path.split("/") for word in _WORD.findall(segment)}
        return next((word for word in self.words if word in found or f"{word}s" in found), None)
