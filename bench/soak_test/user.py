"""The user of a soak, at work in the same repository: commits, switches, amends, rebases, collects, cleans."""

import random  # noqa: TID251 - seeded
import subprocess  # noqa: TID251 - git fails now and then, as it does for users
from collections import Counter

from soak_test.place import Place

FEATURE = "feature"


class User:
    """Works on `main` and on a branch of its own; every commit that it wants to keep is remembered."""

    def __init__(self, place: Place, dice: random.Random) -> None:
        self.done: Counter[str] = Counter()
        """How often each kind of step was taken."""
        self.refused: Counter[str] = Counter()
        """How often git refused it, say because a lock was held, or the disk was full."""
        self.branches: dict[str, list[str]] = {"main": [], FEATURE: []}
        """The subjects of the commits that must be on each branch, oldest first."""
        self._place = place
        self._dice = dice
        self._branch = "main"
        self._number = 0
        place.git("branch", FEATURE)

    def step(self) -> None:
        """Do something that users do."""
        kind = self._dice.choice(("commit", "commit", "switch", "amend", "rebase", "collect", "clean", "pack"))
        before = self._branch, [*self.branches[self._branch]]
        try:
            getattr(self, f"_{kind}")()
        except (subprocess.CalledProcessError, OSError):
            self.refused[kind] += 1
            self._recover(before)
        else:
            self.done[kind] += 1

    def _recover(self, before: tuple[str, list[str]]) -> None:
        """Go back to where the refused step began, as far as git got."""
        self._branch, self.branches[self._branch] = before
        for args in (("rebase", "--abort"), ("switch", "--force", "--quiet", self._branch)):
            try:
                self._place.git(*args)
            except (subprocess.CalledProcessError, OSError):
                continue
        try:
            self.branches[self._branch] = self._subjects(self._branch)
        except (subprocess.CalledProcessError, OSError):
            return

    def _subjects(self, branch: str) -> list[str]:
        subjects = self._place.git("log", "--reverse", "--format=%s", branch).splitlines()
        return [each for each in subjects if each.startswith("user ")]

    def _commit(self) -> None:
        self._number += 1
        name, subject = f"notes-{self._branch}-{self._number}.txt", f"user {self._number}"
        (self._place.repo / name).write_text(f"{subject}\n")
        self._place.git("add", name)
        self._place.git("commit", "--quiet", f"--message={subject}")
        self.branches[self._branch].append(subject)

    def _switch(self) -> None:
        other = FEATURE if self._branch == "main" else "main"
        self._place.git("switch", "--quiet", other)
        self._branch = other

    def _amend(self) -> None:
        own = self.branches[self._branch]
        if not own or own[-1] in self.branches["main" if self._branch == FEATURE else FEATURE]:
            return
        self._number += 1
        subject = f"user {self._number}"
        self._place.git("commit", "--quiet", "--amend", f"--message={subject}")
        own[-1] = subject

    def _rebase(self) -> None:
        if self._branch == FEATURE:
            self._place.git("rebase", "--quiet", "main")
            self.branches[FEATURE] = self._subjects(FEATURE)

    def _collect(self) -> None:
        self._place.git("gc", "--quiet", "--prune=now")

    def _clean(self) -> None:
        self._place.git("clean", "--quiet", "-dfx")

    def _pack(self) -> None:
        self._place.git("pack-refs", "--all")
