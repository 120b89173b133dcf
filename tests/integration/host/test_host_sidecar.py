"""Services beside a command."""

import os
import socket
import sys
from pathlib import Path

import pytest

from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.sidecar import NOT_READY, with_services

SERVE = f"exec '{sys.executable}' -m http.server --bind 127.0.0.1 {{port}} @{{port}}"
ASK = f"""'{sys.executable}' -c "
import urllib.request
print(urllib.request.urlopen('http://127.0.0.1:{{port}}/greeting').read().decode())" """


QUEUE = Path("/proc/sys/net/core/somaxconn")
LONG_QUEUES = QUEUE.exists() and int(QUEUE.read_text()) >= 500


@pytest.fixture
def beside_it(tmp_path, env):
    """Run a shell command with services beside it."""

    async def started(services, command):
        (tmp_path / "greeting").write_text("hello")
        (tmp_path / "inner").mkdir(exist_ok=True)
        argv = with_services(services, ["/bin/sh", "-c", command], top=tmp_path)
        environ = env | {"TMPDIR": str(tmp_path)}
        return await run_command(argv, cwd=tmp_path / "inner", env=environ, timeout_s=60, containment=Containment())

    return started


def listens(port):
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def test_without_services_the_command_is_started_directly(tmp_path):
    assert with_services((), ["true", "x"], top=tmp_path) == ("true", "x")


@pytest.mark.parametrize("code", [0, 3])
async def test_a_command_finds_its_services_ready_and_they_end_with_it(beside_it, port, code):
    """AL-9: loopback services run beside a check and end with it; they start at the top of the checkout."""
    ended = await beside_it([SERVE.format(port=port)], f"{ASK.format(port=port)}; exit {code}")
    assert (ended.exit_code, ended.stdout) == (code, b"hello\n"), ended.stderr
    assert not listens(port)


@pytest.mark.skipif(not LONG_QUEUES, reason=f"needs {QUEUE} of at least 500: longer queues of connections are cut")
async def test_hundreds_of_simultaneous_connections_are_all_served(tmp_path, env, port):
    """If a backlog is full, Linux answers with SYN cookies, and the first data can be lost."""
    socket_folder = tmp_path / "socket_folder"
    socket_folder.mkdir()
    with socket.socket(socket.AF_UNIX) as outside:
        outside.bind(str(socket_folder / str(port)))
        outside.listen(500)
        asking = f"import socket\nheld = [socket.create_connection(('127.0.0.1', {port}), 2) for _ in range(500)]"
        argv = with_services((), [sys.executable, "-c", asking], top=tmp_path, socket_folder=socket_folder)
        ended = await run_command(argv, cwd=tmp_path, env=env, timeout_s=60, containment=Containment())
    assert (ended.exit_code, ended.stderr) == (0, b"")


async def test_a_service_that_ends_before_it_is_ready_is_reported_with_its_output(beside_it, port, tmp_path):
    ended = await beside_it([f"echo no such database; exit 7 @{port}"], "touch ran")
    assert ended.exit_code == NOT_READY
    assert b"exit code 7" in ended.stderr
    assert ended.stderr.endswith(b"no such database\n")
    assert not (tmp_path / "inner" / "ran").exists()


async def test_a_port_used_by_another_process_is_an_error(beside_it):
    """Otherwise a check would run against a server of the user's."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        ended = await beside_it([SERVE.format(port=taken)], "true")
    assert ended.exit_code == NOT_READY
    assert f"port {taken} ".encode() in ended.stderr


async def test_a_service_without_a_port_is_not_waited_for(beside_it):
    ended = await beside_it(["sleep 60.5"], "echo checked")
    assert (ended.exit_code, ended.stdout) == (0, b"checked\n")


async def test_a_service_whose_daemon_continues_may_exit(beside_it, port):
    serve = SERVE.format(port=port).removesuffix(f" @{port}").removeprefix("exec ")
    ended = await beside_it([f"{serve} & exit 0 @{port}"], ASK.format(port=port))
    assert (ended.exit_code, ended.stdout) == (0, b"hello\n"), ended.stderr
    assert not listens(port)


async def test_a_missing_command_is_reported_as_usual(tmp_path, env):
    argv = with_services(["true"], [str(tmp_path / "nothing")], top=tmp_path)
    ended = await run_command(
        argv, cwd=tmp_path, env=env | {"PATH": os.environ["PATH"]}, timeout_s=60, containment=Containment()
    )
    assert ended.exit_code == 127
