"""Servers and shared memory of commands under Landlock, and attempts to reach those of others."""

import errno
import os
import socket
import sys
from pathlib import Path

import pytest
from msgspec import structs

from builders import needs
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import run_command
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.host.sandbox.landlock.domain import names_in
from support.landlock_zone import MAY_RUN_AS_NOBODY, SYSTEM_PYTHON, Zone, run_as_nobody

PROBLEM = landlock.unsupported_reason() or ("" if landlock.has_broker() else "before Linux 5.19 there is no broker")
pytestmark = pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)

SERVER = """
import threading
def serve(family=socket.AF_INET, host="127.0.0.1", port=0):
    server = socket.socket(family)
    server.bind((host, port))
    server.listen()
    def answer():
        while True:
            taken, _ = server.accept()
            taken.sendall(b"answer")
            taken.close()
    threading.Thread(target=answer, daemon=True).start()
    return server.getsockname()[1]
def attempt(call, *words):
    try:
        print(call(*words))
    except OSError as error:
        print(errno.errorcode[error.errno])
def ask(host, port):
    with socket.create_connection((host, port), timeout=10) as client:
        return client.recv(99).decode()
"""


@pytest.fixture
def zone(tmp_path):
    tmp_path.chmod(0o755)
    made = Zone(tmp_path)
    made.confinement = structs.replace(made.confinement, network="loopback")
    return made


@pytest.fixture
def foreign():
    """A server of the machine's, which commands must not reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def shared():
    """A server of the machine's whose port others may share."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server


async def printed(zone, code):
    finished = await zone.python(f"import errno, signal, struct\n{SERVER}\n{code}")
    assert finished.stderr == b""
    return finished.stdout.decode().split()


async def test_a_command_can_connect_to_its_own_server(zone):
    pairs = [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("0.0.0.0", "0.0.0.0"), ("127.0.0.7", "127.0.0.7")]
    code = "\n".join(f"attempt(lambda: ask({reached!r}, serve(host={host!r})))" for host, reached in pairs)
    assert await printed(zone, code) == ["answer"] * 4


async def test_a_server_on_all_addresses_is_reached_by_both_families(zone):
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    code = """
port = serve(socket.AF_INET6, "::")
print(ask("127.0.0.1", port), ask("::1", port), ask("::ffff:127.0.0.1", port), ask("localhost", port))
alone = socket.socket(socket.AF_INET6)
alone.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
alone.bind(("::", 0))
alone.listen()
attempt(ask, "127.0.0.1", alone.getsockname()[1])
"""
    assert await printed(zone, code) == ["answer"] * 4 + ["ECONNREFUSED"]


async def test_only_allowed_ports_of_the_machine_are_reached(zone, foreign, shared):
    """BX-9: so a proxy can be given to a command that has no network of its own."""
    port, other = foreign.getsockname()[1], shared.getsockname()[1]
    zone.confinement = structs.replace(zone.confinement, network="hosts", ports=(port,))
    code = f"""
for host, port in (("127.0.0.1", {port}), ("::ffff:127.0.0.1", {port}), ("127.0.0.2", {port}), ("127.0.0.1", {other})):
    attempt(lambda: type(socket.create_connection((host, port), timeout=10)).__name__)
"""
    assert await printed(zone, code) == ["socket", "socket", "ECONNREFUSED", "ECONNREFUSED"]


async def test_a_port_that_was_found_free_can_be_bound_again(zone):
    code = """
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
print(ask("127.0.0.1", serve(port=port)))
"""
    assert await printed(zone, code) == ["answer"]


async def test_a_closed_connection_ends_at_the_other_side(zone):
    code = """
with socket.create_connection(("127.0.0.1", serve()), timeout=10) as client:
    print(client.recv(99).decode(), client.recv(99) == b"")
"""
    assert await printed(zone, code) == ["answer", "True"]


async def test_asynchronous_servers_and_process_pools_work_as_usual(zone):
    code = """
import asyncio, multiprocessing
async def main():
    async def greet(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(greet, "localhost", 0)
    reader, writer = await asyncio.open_connection("localhost", server.sockets[0].getsockname()[1])
    writer.write(b"line\\n")
    print((await reader.readline()).decode(), end="")
asyncio.run(main())
with multiprocessing.Pool(2) as pool:
    print(sum(pool.map(abs, range(-3, 0))))
"""
    assert await printed(zone, code) == ["line", "6"]


async def test_a_server_in_another_process_of_the_command_is_reached(zone):
    script = """
python3 -m http.server 0 --bind 127.0.0.1 > log 2>&1 &
while ! grep -q port log; do sleep 0.05; done
python3 -c "
import re, urllib.request
port = re.search(r'port (\\d+)', open('log').read())[1]
print(urllib.request.urlopen(f'http://127.0.0.1:{port}/README').read())"
"""
    finished = await zone.run("bash", "-c", script, env=dict(os.environ) | {"PYTHONUNBUFFERED": "1"})
    assert finished.stdout == b"b'hello\\n'\n", finished.stderr


async def test_a_server_of_the_machine_is_not_reached(zone, foreign):
    """BX-9"""
    port, hosts = foreign.getsockname()[1], ("127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "localhost")
    code = "\n".join(f"attempt(ask, {host!r}, {port})" for host in hosts)
    assert await printed(zone, code) == ["ECONNREFUSED"] * 4


async def test_its_port_on_another_address_does_not_make_a_server_reachable(zone, foreign):
    """BX-9"""
    port = foreign.getsockname()[1]
    code = f"serve(host='127.0.0.9', port={port})\nattempt(ask, '127.0.0.1', {port})\nprint(ask('127.0.0.9', {port}))"
    assert await printed(zone, code) == ["ECONNREFUSED", "answer"]


async def test_sharing_the_port_of_another_server_is_refused(zone, shared):
    """BX-9"""
    code = f"""
for host in ("127.0.0.1", "0.0.0.0"):
    mine = socket.socket()
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    attempt(mine.bind, (host, {shared.getsockname()[1]}))
"""
    assert await printed(zone, code) == ["EADDRINUSE", "EADDRINUSE"]


async def test_closed_sockets_do_not_use_up_the_descriptors_of_the_broker(zone):
    """BX-9: it holds them until they are bound; the limit is inherited, and often 1,024."""
    code = f"""
import errno, os, socket
{SERVER}
for _ in range(1500):
    socket.socket().close()
print(ask("127.0.0.1", serve()))
"""
    argv = landlock.argv(zone.confinement, [sys.executable, "-I", "-c", code])
    env = child_environment(os.environ) | {"TMPDIR": str(zone.temporary)}
    limited = ("sh", "-c", 'ulimit -n 700; exec "$@"', "sh", *argv)
    finished = await run_command(limited, cwd=zone.work, env=env, timeout_s=60)
    assert (finished.stdout, finished.stderr) == (b"answer\n", b"")


@pytest.mark.slow
async def test_setting_the_option_while_the_socket_is_bound_does_not_share_a_port(zone, shared):
    """BX-9"""
    code = f"""
mine, left = socket.socket(), [1500]
def switch():
    while left[0]:
        try: mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        except OSError: pass
threading.Thread(target=switch).start()
answers = set()
while left[0]:
    mine = socket.socket()
    left[0] -= 1
    try: answers.add(mine.bind(("127.0.0.1", {shared.getsockname()[1]})))
    except OSError as error: answers.add(errno.errorcode[error.errno])
    mine.close()
print(*answers)
"""
    assert await printed(zone, code) == ["EADDRINUSE"]


async def test_an_own_address_does_not_open_another_servers_on_the_same_port(zone):
    """BX-9: a socket for all addresses would share the port of the server on ::1."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with socket.socket(socket.AF_INET6) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind(("::1", 0))
        shared.listen()
        code = f"""
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")):
    mine = socket.socket(family)
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    attempt(mine.bind, (host, {shared.getsockname()[1]}))
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
"""
        assert await printed(zone, code) == ["None", "EADDRINUSE"]


async def test_one_server_can_have_both_families_on_the_same_port(zone):
    code = """
import asyncio
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
async def main():
    server = await asyncio.start_server(lambda *_: None, None, port)
    print(len(server.sockets))
asyncio.run(main())
"""
    assert await printed(zone, code) == [str(1 + socket.has_dualstack_ipv6())]


async def test_workers_of_a_server_can_share_its_port(zone):
    code = """
port = 0
for _ in range(2):
    mine = socket.socket()
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    attempt(mine.bind, ("127.0.0.1", port))
    port = port or mine.getsockname()[1]
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
"""
    assert await printed(zone, code) == ["None", "None"]


ATTACKS = {
    "ask('192.0.2.1', 80)": "ENETUNREACH",
    "socket.socket().bind(('192.0.2.1', 0))": "EADDRNOTAVAIL",
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)": "EPERM",
    "socket.socket(socket.AF_INET, socket.SOCK_RAW)": "EPERM",
    "socket.socket(socket.AF_UNIX)": "EPERM",
    "socket.socket().setsockopt(socket.SOL_SOCKET, 25, b'')": "EPERM",
    "socket.socket().setsockopt(socket.SOL_SOCKET, 62, 0)": "EPERM",
    "socket.socket().setsockopt(socket.SOL_SOCKET, 25, b'eth0')": "EPERM",
    "socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', FOREIGN))": "EPERM",
    "socket.socket().sendmsg([b'x'], [], 0x20000000, ('127.0.0.1', FOREIGN))": "EPERM",
    "socket.socketpair()[0].connect('/run/x')": "EPERM",
    "socket.socketpair()[0].bind('/run/x')": "EPERM",
}


async def test_no_call_leads_out_of_the_loopback_network(zone, foreign):
    """BX-9"""
    code = "\n".join(f"attempt(lambda: {attack})" for attack in ATTACKS)
    answers = await printed(zone, code.replace("FOREIGN", str(foreign.getsockname()[1])))
    assert dict(zip(ATTACKS, answers, strict=True)) == ATTACKS


async def test_a_listener_without_an_address_is_reachable_from_this_machine_only(zone):
    """BX-9: the kernel gives it a port on all addresses, but the socket stays tied to the loopback device."""
    code = """
server = socket.socket()
server.listen()
print(server.getsockopt(socket.SOL_SOCKET, 25, 16).strip(b"\\0").decode())
taken = server.dup()
attempt(taken.setsockopt, socket.SOL_SOCKET, 25, b"")
"""
    assert await printed(zone, code) == ["lo", "EPERM"]


@pytest.mark.slow
async def test_changing_an_address_while_it_is_read_reaches_no_other_server(zone, foreign):
    """BX-9"""
    foreign.setblocking(False)
    code = f"""
import time
libc = ctypes.CDLL(None, use_errno=True)
mine, theirs = serve(), {foreign.getsockname()[1]}
def packed(port):
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton("127.0.0.1") + bytes(8)
address = ctypes.create_string_buffer(packed(mine), 16)
end = time.monotonic() + 1.5
def exchange():
    while time.monotonic() < end:
        address.raw = packed(theirs)
        address.raw = packed(mine)
threading.Thread(target=exchange).start()
reached = 0
while time.monotonic() < end:
    with socket.socket() as client:
        reached += libc.connect(client.fileno(), address, 16) == 0
print(reached > 0)
"""
    assert await printed(zone, code) == ["True"]
    with pytest.raises(BlockingIOError):
        foreign.accept()


async def test_shared_memory_is_new_for_each_command(zone):
    """BX-9"""
    code = """
from multiprocessing import resource_tracker, shared_memory
made = shared_memory.SharedMemory("scaffold-test", create=True, size=100)
again = shared_memory.SharedMemory("scaffold-test")
made.buf[0] = 7
print(again.buf[0], flush=True)
again.close()
resource_tracker.unregister(made._name, "shared_memory")  # or it warns of what is left, if it has the time
os._exit(0)
"""
    assert await printed(zone, code) == ["7"]
    assert await printed(zone, code) == ["7"]
    assert "scaffold-test" not in names_in("/dev/shm")
    assert list(zone.temporary.iterdir()) == []


@pytest.fixture
def foreign_memory():
    """Shared memory of another program."""
    path = Path(f"/dev/shm/scaffold-test-{os.getpid()}")
    path.write_text("theirs")
    yield path
    path.unlink()


async def test_shared_memory_of_other_programs_is_out_of_reach(zone, foreign_memory):
    """BX-9"""
    code = f"""
path = {str(foreign_memory)!r}
attempt(lambda: open(path, 'rb'))
attempt(lambda: os.open(path, os.O_RDWR | os.O_NOFOLLOW))
attempt(lambda: os.unlink(path))
attempt(os.link, path, 'src/taken')
attempt(os.rename, path, 'taken')
"""
    assert set(await printed(zone, code)) <= {"EACCES", "ENOENT", "EXDEV"}
    assert foreign_memory.read_text() == "theirs"


async def test_without_a_network_no_internet_socket_can_be_made(zone):
    """BX-9"""
    zone.confinement = structs.replace(zone.confinement, network="none")
    assert await printed(zone, "attempt(socket.socket)") == ["EPERM"]


async def test_a_sandbox_in_a_sandbox_has_no_network(zone):
    """BX-9: there can be only one broker, and without one nothing judges where a connection leads."""
    code = "import socket\ntry: socket.socket()\nexcept OSError as error: print(error.errno)"
    finished = await zone.run(*landlock.argv(zone.confinement, [sys.executable, "-I", "-c", code]))
    assert finished.stdout.decode().split() == [str(errno.EPERM)], finished.stderr


async def test_without_a_broker_there_is_no_network(zone):
    """BX-9: before Linux 5.19"""
    argv = landlock.argv(zone.confinement, [sys.executable, "-I", "-c", "import socket; socket.socket()"])
    argv = [word for word in argv if not word.startswith("notify:")]
    finished = await run_command(argv, cwd=zone.work, env=dict(os.environ), timeout_s=20)
    assert b"not permitted" in finished.stderr


@MAY_RUN_AS_NOBODY
async def test_the_broker_works_for_an_ordinary_user():
    """BX-9"""
    code = """
import multiprocessing, socket
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
    print("connected")
"""
    script = f"echo x > new; cat new; mkdir made; echo y > made/in; cat made/in; {SYSTEM_PYTHON} -c '{code}'"
    finished = await run_as_nobody(["sh", "-c", script], network="loopback")
    assert finished.stdout.decode().split() == ["x", "y", "[1,", "2]", "connected"], finished.stderr


@needs("prlimit")
@MAY_RUN_AS_NOBODY
async def test_the_broker_outlives_a_command_that_uses_up_the_threads():
    """BX-9: each connection that waits for a server needs a thread of the broker, too."""
    code = """
import os, socket, threading
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
failed = threading.Event()
def connect():
    try: socket.socket().connect(server.getsockname())
    except BlockingIOError: failed.set()
try:
    while True: threading.Thread(target=connect, daemon=True).start()
except RuntimeError:
    print(failed.wait(10))
os.mkdir("made")
os.write(1, b"made")
os._exit(3)
"""
    command = [SYSTEM_PYTHON, "-u", "-c", code]
    finished = await run_as_nobody(command, network="loopback", within=["prlimit", "--nproc=100"])
    assert (finished.stdout, finished.exit_code) == (b"True\nmade", 3), finished.stderr
