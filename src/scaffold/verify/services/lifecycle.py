"""Run a command with its services, inside the sandbox and outside."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct, structs

from scaffold.host.leftovers import temporary_prefix
from scaffold.host.process.command_runner import CommandResult, Containment, OutputCapture, run_command
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.port_forward import forward_ports, is_listening
from scaffold.host.sandbox.sidecar import NOT_READY, with_services
from scaffold.host.slots import Slots
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.services import compose
from scaffold.verify.services.compose import ComposeContext, ComposeProject
from scaffold.verify.services.specs import (
    ComposeSpec,
    ExternalService,
    external_services,
    sandbox_commands,
    sorted_ports,
)

READY_S = 60.0
POLL_S = 0.05
CONNECT_TIMEOUT_S = 1.0


class Services(Struct, frozen=True):
    """The services of each check.

    `lines` are the lines of the setting; `compose_context` is None if no service runs outside the sandbox.
    """

    lines: tuple[str, ...] = ()
    compose_context: ComposeContext | None = None


class RunningServices(Struct, frozen=True):
    """How a command reaches its services, once services outside the sandbox are up."""

    inside: tuple[str, ...]
    sandbox: SandboxSpec | None
    socket_folder: Path | None = None
    """The folder of the sockets that forward the ports into the sandbox; None if the ports are reachable directly."""


class ShellCommand(Struct, frozen=True, kw_only=True):
    """A shell command and how it is run."""

    text: str
    cwd: Path
    environ: Mapping[str, str]
    timeout_s: float
    output: OutputCapture = OutputCapture()


async def run_with_services(
    command: ShellCommand, services: Services, sandbox: SandboxSpec | None, *, top: Path
) -> CommandResult:
    """Run a shell command with its services; exit code 126 if they do not start.

    Services inside the sandbox start in `top`. The timeout starts once the services outside are up.
    """
    async with services_up(services, sandbox) as found:
        if isinstance(found, NotReady):
            message = "\n".join(filter(None, (f"{found.what}; {found.fix}", found.detail)))
            return CommandResult(
                exit_code=NOT_READY,
                signal=None,
                timed_out=False,
                stdout=b"",
                stderr=message.encode(),
                stdout_sha256=hashlib.sha256(b"").hexdigest(),
                truncated=False,
                duration_s=0,
            )
        return await run_command(
            with_services(found.inside, ["/bin/sh", "-c", command.text], top=top, socket_folder=found.socket_folder),
            cwd=command.cwd,
            env=command.environ,
            timeout_s=command.timeout_s,
            output=command.output,
            containment=Containment(sandbox=found.sandbox),
        )


@asynccontextmanager
async def services_up(services: Services, sandbox: SandboxSpec | None) -> AsyncIterator[RunningServices | NotReady]:
    """Start the services outside for the block, yield how a command reaches them or the problem, and stop them.

    Other processes that need one of the ports wait meanwhile.
    """
    inside, outside, context = (
        sandbox_commands(services.lines),
        external_services(services.lines),
        services.compose_context,
    )
    if not outside or context is None:
        yield RunningServices(inside, sandbox)
        return
    async with AsyncExitStack() as stack:
        problem = unreachable_reason(sandbox) or await _start_all(context, outside, stack)
        if problem:
            yield problem
        elif sandbox is None or sandbox.level != "bubblewrap":
            yield RunningServices(inside, sandbox)
        else:
            sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=temporary_prefix())))
            await stack.enter_async_context(forward_ports(sockets, sorted_ports(outside)))
            confinement, folder = sandbox.confinement, sockets.resolve()  # noqa: ASYNC240 - our own new folder
            shown, allowed = (*confinement.readable, folder), (*confinement.sockets, folder)
            opened = structs.replace(confinement, readable=shown, sockets=allowed)
            yield RunningServices(inside, structs.replace(sandbox, confinement=opened), sockets)


async def prove_services(services: Services, sandbox: SandboxSpec | None, *, trusted: bool) -> NotReady | None:
    """Start and stop the services outside once; return why checks cannot use them, or None.

    Nothing is started from a folder that is not trusted.
    """
    outside = external_services(services.lines)
    if not trusted and any(isinstance(service, ComposeSpec) for service in outside):
        return NotReady(
            what="`services` starts compose services outside the sandbox, and the folder is not trusted",
            fix="review the repository's compose files, then run `scaffold trust`; or change `services`",
        )
    async with services_up(services, sandbox) as found:
        return found if isinstance(found, NotReady) else None


def unreachable_reason(sandbox: SandboxSpec | None) -> NotReady | None:
    """Return the reason why a command in this sandbox cannot reach a service outside, or None."""
    if sandbox is None:
        return None
    if sandbox.level == "landlock":
        what = "services outside the sandbox cannot be reached at sandbox level `landlock`"
        return NotReady(what=what, fix="run `scaffold doctor` to see how to get bubblewrap; or change `services`")
    if sandbox.confinement.network == "none":
        what = "services outside the sandbox cannot be reached because `sandbox.network` is `none`"
        return NotReady(what=what, fix="set it to `loopback`, or change `services`")
    return None


async def stop_leftovers(context: ComposeContext) -> None:
    """Stop the projects that a run left up when it was killed during a check, except those in use.

    A process that now holds a project's ports has already stopped that project.
    """
    in_use = [project for project in compose.projects_of_run(context) if not await _stop_if_unused(context, project)]
    if not in_use and context.folder.exists():
        await compose.remove_checkout(context)


async def _stop_if_unused(context: ComposeContext, project: ComposeProject) -> bool:
    """Stop a project unless another process holds its ports; return whether the ports were free."""
    async with AsyncExitStack() as stack:
        try:
            # A free lock is taken at once; a longer wait means that a check is using the services.
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await _lock_ports(context, project.ports, stack)
        except TimeoutError:
            return False
        await _stop_or_report(context, project)
    return True


async def _stop_or_report(context: ComposeContext, project: ComposeProject) -> None:
    if problem := await compose.stop_project(context, project):
        context.tell(compose.still_running_message(project, problem))


async def _start_all(
    context: ComposeContext, outside: Sequence[ExternalService], stack: AsyncExitStack
) -> NotReady | None:
    ports = sorted_ports(outside)
    await _lock_ports(context, ports, stack)
    # The process that recorded them no longer holds their ports, which are locked here, so it was killed.
    for project in compose.recorded_projects(context):
        if not set(ports).isdisjoint(project.ports) and (problem := await compose.stop_project(context, project)):
            return problem
    specs = [service for service in outside if isinstance(service, ComposeSpec)]
    if specs and (problem := await _start_compose(context, specs, stack)):
        return problem
    for service in outside:
        timeout_s = READY_S if isinstance(service, ComposeSpec) else 0.0
        for port in service.ports:
            if not await _accepts_within(port, timeout_s):
                what = f"nothing listens on port {port} on this machine, where a service is expected"
                fix = "start the service, or let compose publish it on 127.0.0.1, or change `services`"
                return NotReady(what=what, fix=fix)
    return None


async def _lock_ports(context: ComposeContext, ports: Sequence[int], stack: AsyncExitStack) -> None:
    for port in ports:
        await stack.enter_async_context(Slots(context.shared / "ports" / str(port), 1).taken())


async def _start_compose(
    context: ComposeContext, specs: Sequence[ComposeSpec], stack: AsyncExitStack
) -> NotReady | None:
    # Otherwise a check could use the user's own server and change its data.
    if taken := [port for port in sorted_ports(specs) if await is_listening(port)]:
        what = f"port {taken[0]} on this machine is already in use, but compose must publish a service there"
        return NotReady(what=what, fix="stop that process, or publish another port")
    program = await compose.find_compose(context)
    if isinstance(program, NotReady):
        return program
    # Pushed first, so it runs last: `down` still needs the compose files.
    stack.push_async_callback(compose.remove_checkout, context)
    if problem := await compose.check_out_files(context):
        return problem
    for number, service in enumerate(specs, 1):
        project = ComposeProject(
            name=f"{context.name}_{number}",
            program=program,
            files=service.files,
            folder=os.fspath(context.folder),
            ports=service.ports,
        )
        # Before the start, which may fail halfway and leave some containers running.
        stack.push_async_callback(_stop_or_report, context, project)
        if problem := await compose.start_project(context, service, project):
            return problem
    return None


async def _accepts_within(port: int, timeout_s: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        if (found := await is_listening(port)) or loop.time() >= deadline:
            return found
        await asyncio.sleep(POLL_S)
