"""Attendance: what a check is run with so that it finds its services, inside of its sandbox and outside."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct, structs

from scaffold.host.companion import NOT_READY, beside
from scaffold.host.passage import accepts, opened_ways
from scaffold.host.process import Finished, run
from scaffold.host.sandbox.confinement import Enclosure
from scaffold.host.slots import Slots
from scaffold.verify.readiness import NotReady
from scaffold.verify.services import compose
from scaffold.verify.services.compose import Outfit, Stack
from scaffold.verify.services.lines import Compose, Outside, inside_of, outside_of, ports_of

READY_S = 60.0
ROUND_S = 0.05
BRIEF_S = 1.0
NOTHING = hashlib.sha256(b"").hexdigest()


class Services(Struct, frozen=True):
    """What runs for each check: lines of the setting, and means for those outside; None where there are none."""

    lines: tuple[str, ...] = ()
    means: Outfit | None = None


class Attended(Struct, frozen=True):
    """Services that are up, as far as they are outside."""

    inside: tuple[str, ...]
    enclosure: Enclosure | None
    ways: Path | None = None
    """Where sockets lead to them from inside; None where the ports are reached as they are."""


async def run_attended(
    command: str,
    services: Services,
    enclosure: Enclosure | None,
    *,
    top: Path,
    cwd: Path,
    environ: Mapping[str, str],
    timeout_s: float,
    limit_bytes: int = 1_000_000,
) -> Finished:
    """Run a shell command with its services, those inside begun in `top`; exit 126 if these do not get ready.

    Its time begins when those outside are up.
    """
    async with attended(services, enclosure) as found:
        if isinstance(found, NotReady):
            return _not_run(found)
        return await run(
            beside(found.inside, ["/bin/sh", "-c", command], top=top, ways=found.ways),
            cwd=cwd,
            env=environ,
            timeout_s=timeout_s,
            limit_bytes=limit_bytes,
            leash=True,
            enclosure=found.enclosure,
        )


@asynccontextmanager
async def attended(services: Services, enclosure: Enclosure | None) -> AsyncIterator[Attended | NotReady]:
    """Have the services outside up while the block lasts, new for it, and yield how a command reaches them.

    Whoever wants one of their ports meanwhile waits.
    """
    inside, outside, means = inside_of(services.lines), outside_of(services.lines), services.means
    if not outside or means is None:
        yield Attended(inside, enclosure)
        return
    async with AsyncExitStack() as held:
        trouble = unreachable(enclosure) or await _up(means, outside, held)
        if trouble:
            yield trouble
        elif enclosure is None or enclosure.level != "bubblewrap":
            yield Attended(inside, enclosure)
        else:
            ways = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="scaffold-")))
            await held.enter_async_context(opened_ways(ways, ports_of(outside)))
            yield Attended(inside, _shown(enclosure, ways), ways)


async def proven_served(services: Services, enclosure: Enclosure | None, *, trusted: bool) -> NotReady | None:
    """Have the services outside up once; return why checks cannot have them. Nothing is started that nobody trusts."""
    outside = outside_of(services.lines)
    if not trusted and any(isinstance(service, Compose) for service in outside):
        return NotReady(
            what="`services` has compose start something outside of the sandbox, and the folder is not trusted",
            fix="look at what the repository's compose files start, then `scaffold trust`, or change `services`",
        )
    async with attended(services, enclosure) as found:
        return found if isinstance(found, NotReady) else None


def unreachable(enclosure: Enclosure | None) -> NotReady | None:
    """Return why nothing that is held so reaches a service outside; None if it does."""
    if enclosure is None:
        return None
    if enclosure.level == "landlock":
        what = "services outside of the sandbox cannot be reached at its level `landlock`, which knows no network"
        return NotReady(what=what, fix="`scaffold doctor` tells how to have bubblewrap; or change `services`")
    if enclosure.confinement.network == "none":
        what = "services outside of the sandbox cannot be reached where `sandbox.network` is `none`"
        return NotReady(what=what, fix="set it to `loopback`, or change `services`")
    return None


async def take_down_left(means: Outfit) -> None:
    """Take down what a run has left up, killed in the middle of a check; what is in use is left alone.

    Whoever else has its ports now has done so already.
    """
    in_use = [project for project in compose.noted_for(means) if not await _taken_down(means, project)]
    if not in_use and means.folder.exists():
        await compose.removed(means)


async def _taken_down(means: Outfit, project: Stack) -> bool:
    """Take a project down unless somebody holds its ports; return whether nobody did."""
    async with AsyncExitStack() as held:
        try:
            async with asyncio.timeout(BRIEF_S):
                await _take(means, project.ports, held)
        except TimeoutError:
            return False
        await _taken_down_or_told(means, project)
    return True


async def _taken_down_or_told(means: Outfit, project: Stack) -> None:
    if trouble := await compose.taken_down(means, project):
        means.tell(compose.left_running(project, trouble))


async def _up(means: Outfit, outside: Sequence[Outside], held: AsyncExitStack) -> NotReady | None:
    """Bring all up, to be taken down by `held`; return why that cannot be done."""
    ports = ports_of(outside)
    await _take(means, ports, held)
    for project in compose.noted(means):
        if not set(ports).isdisjoint(project.ports) and (trouble := await compose.taken_down(means, project)):
            return trouble
    described = [service for service in outside if isinstance(service, Compose)]
    if described and (trouble := await _composed(means, described, held)):
        return trouble
    return await _listened(outside)


async def _take(means: Outfit, ports: Sequence[int], held: AsyncExitStack) -> None:
    for port in ports:
        await held.enter_async_context(Slots(means.shared / "ports" / str(port), 1).taken())


async def _composed(means: Outfit, described: Sequence[Compose], held: AsyncExitStack) -> NotReady | None:
    if taken := [port for port in ports_of(described) if await accepts(port)]:
        what = f"somebody listens on port {taken[0]} of this machine already, where compose is to publish a service"
        return NotReady(what=what, fix="end that, as checks would be made against it, or publish another port")
    program = await compose.program(means)
    if isinstance(program, NotReady):
        return program
    held.push_async_callback(compose.removed, means)
    if trouble := await compose.checked_out(means):
        return trouble
    for number, service in enumerate(described, 1):
        project = Stack(
            name=f"{means.name}_{number}",
            program=program,
            files=service.files,
            folder=os.fspath(means.folder),
            ports=service.ports,
        )
        held.push_async_callback(_taken_down_or_told, means, project)
        if trouble := await compose.brought_up(means, service, project):
            return trouble
    return None


async def _listened(outside: Sequence[Outside]) -> NotReady | None:
    """Return which port nobody listens on; for what has just been started that may take a while."""
    for service in outside:
        patience_s = READY_S if isinstance(service, Compose) else 0.0
        for port in service.ports:
            if not await _accepts_within(port, patience_s):
                what = f"nobody listens on port {port} of this machine, where a service is to be"
                fix = "start it, or have compose publish it on 127.0.0.1, or change `services`"
                return NotReady(what=what, fix=fix)
    return None


async def _accepts_within(port: int, patience_s: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    while True:
        if (found := await accepts(port)) or loop.time() >= deadline:
            return found
        await asyncio.sleep(ROUND_S)


def _shown(enclosure: Enclosure, ways: Path) -> Enclosure:
    confinement = enclosure.confinement
    shown = (*confinement.shown, ways.resolve())
    return structs.replace(enclosure, confinement=structs.replace(confinement, shown=shown))


def _not_run(trouble: NotReady) -> Finished:
    words = "\n".join(filter(None, (f"{trouble.what}; {trouble.fix}", trouble.detail)))
    return Finished(
        exit_code=NOT_READY,
        signal=None,
        timed_out=False,
        stdout=b"",
        stderr=words.encode(),
        stdout_sha256=NOTHING,
        truncated=False,
        duration_s=0,
    )
