"""The repositories in which the user has had a run."""

from pathlib import Path

from scaffold.store.driver.gateway import TableGateway

REMEMBER = """
INSERT INTO repository (common_dir, root, used_at) VALUES (:common_dir, :root, :at)
ON CONFLICT (common_dir) DO UPDATE SET root = excluded.root, used_at = excluded.used_at
"""
ROOTS = "SELECT root FROM repository ORDER BY used_at DESC, common_dir"
FORGET = "DELETE FROM repository WHERE common_dir = :common_dir"


class Repositories(TableGateway):
    """Repositories by their common git directory, so that worktrees count as one."""

    def remember(self, common_dir: Path, root: Path) -> None:
        """Store that the user works in this repository; `root` is the top folder of the checkout."""
        self._connection.write(REMEMBER, common_dir=str(common_dir), root=str(root), at=self._now_text())

    def roots(self) -> tuple[Path, ...]:
        """Return the checkout of each repository, the one used last first; it may have been removed since."""
        return tuple(Path(row["root"]) for row in self._connection.rows(ROOTS))

    def forget(self, common_dir: Path) -> None:
        """Remove a repository from the list."""
        self._connection.write(FORGET, common_dir=str(common_dir))
