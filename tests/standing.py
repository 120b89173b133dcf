"""Environments of checks for tests: prepared for a house's repository, given to checkouts of it."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import structs

from fakes import House
from scaffold.core.gates import CheckEnvironment
from scaffold.core.ids import Commit
from scaffold.git import refs, worktree
from scaffold.host.environment import child_environment
from scaffold.host.process.command import CommandResult, run_command
from scaffold.host.sandbox.confinement import Level, SandboxSpec
from scaffold.policy.sandbox_setup import SandboxInputs, SandboxSettings, build_enclosure
from scaffold.verify.contract.checks import Tree
from scaffold.verify.environment.check_env import check_environ, with_shown_folders
from scaffold.verify.environment.preparation import EnvironmentRequest, PreparedEnvironment, prepare_environment
from scaffold.verify.environment.provisioning import provision_checkout
from scaffold.verify.readiness import NotReady


class Ground:
    """A house's repository and what its checks stand on."""

    def __init__(self, house: House, folder: Path, *, held: bool = False) -> None:
        self.house = house
        self.repo = house.repo
        self.cache = folder / "cache"
        self.environ: Mapping[str, str] = house.site.environ
        self._folder = folder
        self._held = held
        self.level: Level | None = None
        """A weaker sandbox than the best there is."""

    @asynccontextmanager
    async def enclose(self, root: Path) -> AsyncIterator[SandboxSpec | None]:
        """Yield what holds commands in a checkout, as for a run; nothing unless this ground is `held`."""
        grounds = SandboxInputs(
            root=root,
            home=self._folder / "home",
            temporary=self._folder / "temporary",
            private=(self.cache,),
            shown=(self.house.site.repository.common_dir, self._folder / "programs"),
            disposable=True,
        )
        sandbox = SandboxSettings(mode="auto" if self._held else "off")
        walls = await build_enclosure(sandbox, grounds, self.environ, cache=self._folder / "sandbox.json")
        yield structs.replace(walls, level=self.level) if walls and self.level else walls

    async def commit(self, files: Mapping[str, str]) -> Commit:
        """Commit these files in the user's checkout and return the commit."""
        for name, text in files.items():
            (self.repo / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / name).write_text(text)
            await self.house.sh(f"git add --force '{name}'")
        await self.house.sh("git commit --quiet --allow-empty --message more")
        return await self.head()

    async def head(self) -> Commit:
        """Return the commit that the user's checkout is at."""
        head = await refs.resolve(self.house.site.git, "HEAD")
        assert head is not None
        return head

    async def prepare(self, *setup: str, trusted: bool = True, **options: Any) -> PreparedEnvironment | NotReady:
        """Prepare an environment at the head."""
        wanted = EnvironmentRequest(
            repository=self.house.site.repository,
            base=await self.head(),
            setup=setup,
            trusted=trusted,
            cache=self.cache,
            environ=child_environment(self.environ),
            enclose=self.enclose,
            clean=str,
            **options,
        )
        return await prepare_environment(wanted)

    async def prepared(self, *setup: str, **options: Any) -> CheckEnvironment:
        """Do so where nothing can go wrong."""
        found = await self.prepare(*setup, **options)
        assert isinstance(found, PreparedEnvironment), found
        return found.environment

    @asynccontextmanager
    async def tree(self, environment: CheckEnvironment, name: str = "a tree") -> AsyncIterator[Tree]:
        """Yield a checkout of the head, furnished."""
        head = await self.head()
        git = await worktree.add(self.house.site.repository, self.cache / "runs" / name, head)
        await provision_checkout(environment, git.cwd)
        environ = check_environ(environment, git.cwd, child_environment(self.environ))
        async with self.enclose(git.cwd) as walls:
            yield Tree(
                git=git, base=head, commit=head, environ=environ, enclosure=with_shown_folders(environment, walls)
            )


async def look(tree: Tree, command: str, cwd: Path | None = None) -> CommandResult:
    """Run a shell command as a check of the tree."""
    return await run_command(
        ["/bin/sh", "-c", command],
        cwd=cwd or tree.git.cwd,
        env=tree.environ,
        timeout_s=60,
        leash=True,
        enclosure=tree.enclosure,
    )


async def seen(tree: Tree, command: str, cwd: Path | None = None) -> str:
    """Return what a command prints that has to succeed."""
    finished = await look(tree, command, cwd)
    assert finished.exit_code == 0, finished
    return finished.stdout.decode().strip()


PYTHON = sys.executable
