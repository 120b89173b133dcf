"""Services outside the sandbox: real servers started and ended by a fake Docker, and real sandboxes."""

import asyncio
import os
import shlex
import signal
import subprocess  # noqa: TID251 - an owner that is killed
import sys
from contextlib import AsyncExitStack

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from builders import bubblewrap_or_skip
from integration.verify.builders import EnvironmentSetup, verify_contract
from scaffold.core.proof.contract import Check, Contract
from scaffold.core.proof.gates import CheckEnvironment, Gate
from scaffold.git.checkouts import worktree
from scaffold.host.child_environment import child_environment
from scaffold.host.sandbox.confinement import Confinement, SandboxSpec
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.gates.observed_run import run_gate
from scaffold.verify.services.compose import ComposeContext
from scaffold.verify.services.lifecycle import (
    Services,
    ShellCommand,
    prove_services,
    run_with_services,
    services_up,
    stop_leftovers,
)
from support.docker import ask_server, free_port

KILLED = """\
import asyncio, os, sys
from pathlib import Path
from scaffold.host.child_environment import child_environment
from scaffold.verify.services.lifecycle import Services, services_up
from scaffold.verify.services.compose import ComposeContext
from scaffold.git.repository import open_repository

async def main():
    repo, folder, base, line = sys.argv[1:]
    means = ComposeContext(name="scaffold_run", repository=await open_repository(Path(repo), environ=os.environ),
        base=base, clean=str, tell=str, folder=Path(folder) / "services", shared=Path(folder) / "shared",
        environ=child_environment(os.environ))
    async with services_up(Services((line,), means), None) as found:
        print("up", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def project(harness, tmp_path, docker, port):
    """A repository with a compose file, and a fake `docker`; nothing is sandboxed."""
    made = EnvironmentSetup(harness, tmp_path)
    made.environ = {**made.environ, "PATH": f"{docker.programs}:{made.environ['PATH']}"}
    await made.commit({"compose.yaml": f"serve {port} hello\n"})
    return made


@pytest.fixture
async def sandboxed(project, tmp_path):
    """The same, in a sandbox with its own network."""
    inside = EnvironmentSetup(project.harness, tmp_path, sandboxed=True)
    inside.environ = project.environ
    await bubblewrap_or_skip()
    return inside


async def means_of(project, name="scaffold_run", notices=None):
    return ComposeContext(
        name=name,
        repository=project.harness.context.repository,
        base=await project.head(),
        folder=project.cache / "runs" / name / "services",
        shared=project.cache / "services",
        environ=child_environment(project.environ),
        clean=str,
        tell=str if notices is None else notices.append,
    )


async def tree_of(project, stack, *lines, means=None):
    """Return a checkout of the head whose checks have these services."""
    tree = await stack.enter_async_context(project.tree(CheckEnvironment(fingerprint="x")))
    return structs.replace(tree, services=Services(lines, means or await means_of(project)))


@pytest.fixture
async def stack():
    async with AsyncExitStack() as made:
        yield made


async def unsandboxed(services, command, cwd):
    environ = child_environment(os.environ)
    shell = ShellCommand(text=command, cwd=cwd, environ=environ, timeout_s=60)
    return await run_with_services(shell, services, None, top=cwd)


def kill_once_up(argv, environ):
    """Start an owner, and kill it as soon as its services are up."""
    owner = subprocess.Popen(argv, env=dict(environ), stdout=subprocess.PIPE)
    assert owner.stdout.readline() == b"up\n"
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()


def expect_order(docker):
    """Check that services are never up at the same time."""
    up = 0
    for call in docker.calls:
        words = call.split()
        up += ("up" in words) - ("down" in words)
        assert up in {0, 1}, docker.calls


@pytest.mark.slow
async def test_checks_and_gates_get_fresh_services_each(sandboxed, docker, port, stack):
    """AL-9: compose services by trusted setup; no check influences the next, and nothing is left."""
    tree = await tree_of(sandboxed, stack, f"compose db @{port}")
    checks = tuple(Check(command=f"{ask_server(port, word)} | grep -x 'hello {word}'") for word in ("one", "two"))
    await worktree.restore(tree.git, tree.commit)
    found = await verify_contract(Contract(commands=checks), structs.replace(tree, base=f"{tree.commit}^"))
    assert [(result.verdict, result.detail) for result in found.results] == [
        ("pass", "exit code 0\nhello one"),
        ("pass", "exit code 0\nhello two"),
    ]
    gate = await run_gate(Gate(kind="test", command=ask_server(port, "three")), tree, environment="x", timeout_s=60)
    assert (gate.exit_code, gate.detail) == (0, "hello three")
    assert docker.up == []
    assert [call.split()[3:] for call in docker.calls if " up " in call] == [["up", "--detach", "--wait", "db"]] * 3
    assert all("-p scaffold_run_1 " in call for call in docker.calls if call != "compose version")
    assert not tree.services.compose_context.folder.exists()


async def test_services_are_those_of_the_base_whatever_a_candidate_says(sandboxed, docker, port, stack):
    """AL-9: an agent that changes the compose file starts nothing outside its sandbox."""
    means = await means_of(sandboxed)
    await sandboxed.commit({"compose.yaml": f"serve {port} escaped\n"})
    tree = await tree_of(sandboxed, stack, f"compose @{port}", means=means)
    assert (tree.git.cwd / "compose.yaml").read_text() == f"serve {port} escaped\n"
    gate = await run_gate(Gate(kind="test", command=ask_server(port, "word")), tree, environment="x", timeout_s=60)
    assert gate.detail == "hello word"


async def test_a_check_reaches_only_the_listed_ports(sandboxed, docker, stack):
    async def greet(reader, writer):
        writer.write(b"you said " + await reader.readline())
        writer.close()

    async with (
        await asyncio.start_server(greet, "127.0.0.1", 0) as named,
        await asyncio.start_server(greet, "127.0.0.1", 0) as other,
    ):
        ports = [server.sockets[0].getsockname()[1] for server in (named, other)]
        tree = await tree_of(sandboxed, stack, f"host @{ports[0]}")
        gates = [Gate(kind="test", command=ask_server(each, "word")) for each in ports]
        reached, refused = [await run_gate(gate, tree, environment="x", timeout_s=60) for gate in gates]
    assert (reached.exit_code, reached.detail) == (0, "you said word")
    assert refused.exit_code == 1
    assert "ConnectionRefusedError" in refused.detail
    assert docker.calls == []


async def test_without_a_sandbox_the_port_is_reached_directly(project, port, tmp_path):
    services = Services((f"compose @{port}",), await means_of(project))
    assert (await unsandboxed(services, ask_server(port, "word"), tmp_path)).stdout == b"hello word\n"


@pytest.mark.parametrize(
    ("level", "network", "why"),
    [("landlock", "loopback", "at sandbox level `landlock`"), ("bubblewrap", "none", "`sandbox.network` is `none`")],
)
async def test_services_are_not_started_if_they_cannot_be_reached(project, docker, port, level, network, why):
    walls = SandboxSpec(level, Confinement(writable=(), temporary=project.cache, network=network))
    found = await prove_services(Services((f"compose @{port}",), await means_of(project)), walls, trusted=True)
    assert why in found.what
    assert docker.calls == []


async def test_services_of_an_untrusted_repository_are_not_started(project, docker, port):
    """SC-7: services described by a repository start only with trust."""
    services = Services((f"compose @{port}",), await means_of(project))
    found = await prove_services(services, None, trusted=False)
    assert (docker.calls, "scaffold trust" in found.fix, "not trusted" in found.what) == ([], True, True)
    assert await prove_services(services, None, trusted=True) is None


async def test_unhealthy_services_are_reported_and_stopped(project, docker, port, tmp_path):
    """BX-4: with the command, its exit code and its output."""
    await project.commit({"compose.yaml": "broken\n"})
    services = Services((f"compose @{port}",), await means_of(project))
    found = await prove_services(services, None, trusted=True)
    assert found.what == snapshot(
        "the compose services could not be started: "
        "`docker compose -p scaffold_run_1 up --detach --wait` exited with code 1: service db is unhealthy"
    )
    assert docker.calls[-1].startswith("compose -p scaffold_run_1 down --volumes")
    ended = await unsandboxed(services, "echo ran", tmp_path)
    assert (ended.exit_code, ended.stdout) == (126, b"")
    assert b"service db is unhealthy" in ended.stderr


async def test_a_missing_daemon_or_program_is_reported_with_a_fix(project, docker, port):
    """BX-4: also if leftover services cannot be stopped; with a daemon again it recovers."""
    docker.stop_daemon()
    services = Services((f"compose @{port}",), await means_of(project))
    dead = await prove_services(services, None, trusted=True)
    again = await prove_services(services, None, trusted=True)
    nowhere = structs.replace(
        services.compose_context, environ={**services.compose_context.environ, "PATH": "/nowhere"}
    )
    missing = await prove_services(Services((f"compose @{free_port()}",), nowhere), None, trusted=True)
    for each in (dead, again):
        assert each.what.endswith("Cannot connect to the Docker daemon")  # what the program said
    assert dead.fix == snapshot(
        "check that the daemon is running and that the services become healthy when you start them manually"
    )
    assert missing.what == snapshot(
        "the services need compose, but none of `docker compose`, `docker-compose`, `podman compose` works on "
        "this machine"
    )
    assert "`docker compose version`" in missing.fix
    (docker.home / "no daemon").unlink()
    assert await prove_services(services, None, trusted=True) is None


async def test_a_port_used_by_another_process_is_an_error(project, docker):
    """Otherwise a check would run against a server of the user's."""
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
        taken = server.sockets[0].getsockname()[1]
        found = await prove_services(Services((f"compose @{taken}",), await means_of(project)), None, trusted=True)
    assert f"port {taken} " in found.what
    assert docker.calls == []


async def test_a_missing_server_on_the_host_is_reported(project, port):
    found = await prove_services(Services((f"host @{port}",), await means_of(project)), None, trusted=False)
    assert f"port {port} " in found.what


@pytest.mark.slow
async def test_two_concurrent_checks_wait_for_each_other(project, docker, port, tmp_path):
    """AL-9: both publish the same port; each has its own services."""
    named = [Services((f"compose @{port}",), await means_of(project, name)) for name in ("one", "two")]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(unsandboxed(each, ask_server(port, "word"), tmp_path)) for each in named]
    assert [task.result().stdout for task in tasks] == [b"hello word\n"] * 2
    expect_order(docker)


async def test_a_cancelled_check_stops_its_services(project, docker, port, tmp_path):
    services = Services((f"compose @{port}",), await means_of(project))
    waiting = asyncio.create_task(unsandboxed(services, f"touch begun; {ask_server(port, 'x')}; sleep 60", tmp_path))
    while not (tmp_path / "begun").exists():  # noqa: ASYNC110 - a command rings no bell
        await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (waiting.cancelled(), docker.up, services.compose_context.folder.exists()) == (True, [], False)


@pytest.mark.slow
@pytest.mark.parametrize("next_start", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_services_of_a_killed_owner_are_stopped_by_the_next_start_and_at_the_end(
    project, docker, port, tmp_path, next_start
):
    """AL-9, BX-5: kill -9 during a check leaves services up; the next one does not use them."""
    folder, line = project.cache / "runs", f"compose @{port}"
    argv = [sys.executable, "-c", KILLED, str(project.repo), str(folder), await project.head(), line]
    kill_once_up(argv, project.environ)
    assert docker.up == ["scaffold_run_1"]
    means = structs.replace(await means_of(project), folder=folder / "services", shared=folder / "shared")
    if next_start:
        other = structs.replace(means, name="scaffold_other", folder=folder / "other")
        assert (await unsandboxed(Services((line,), other), ask_server(port, "x"), tmp_path)).stdout == b"hello x\n"
        assert docker.up == []
        assert "compose -p scaffold_run_1 down --volumes" in " ".join(docker.calls)
    await stop_leftovers(means)
    assert (docker.up, means.folder.exists(), list(means.shared.glob("*.json"))) == ([], False, [])


async def test_services_that_cannot_be_stopped_are_reported_with_the_command(project, docker, port, tmp_path):
    """BX-4: the daemon is gone when a check ends; the user needs to know what is left, and it stays recorded."""
    messages = []
    services = Services((f"compose @{port}",), await means_of(project, notices=messages))
    ended = await unsandboxed(services, f"touch '{docker.home}/no daemon'", tmp_path)
    await stop_leftovers(services.compose_context)
    program = shlex.quote(str(docker.programs / "docker"))
    assert (ended.exit_code, docker.up, messages[0].count("\n")) == (0, ["scaffold_run_1"], 0)
    line = (
        "the compose services are still running and could not be stopped: `docker compose -p scaffold_run_1 "
        "down --volumes --remove-orphans --rmi local --timeout 5` exited with code 1: Cannot connect to the Docker "
        "daemon. Once that works, run `scaffold cleanup` or "
        f"`{program} compose -p scaffold_run_1 down --volumes --remove-orphans`"
    )
    assert messages == [line, line]
    (docker.home / "no daemon").unlink()
    await stop_leftovers(services.compose_context)
    assert (docker.up, len(messages), list(services.compose_context.shared.glob("*.json"))) == ([], 2, [])


@pytest.mark.slow
async def test_services_in_use_are_not_stopped_at_the_end_of_a_run(project, docker, port):
    services = Services((f"compose @{port}",), await means_of(project))
    async with services_up(services, None) as found:
        assert not isinstance(found, NotReady)
        await stop_leftovers(services.compose_context)
        assert (docker.up, services.compose_context.folder.exists()) == (["scaffold_run_1"], True)
    assert docker.up == []
