"""Ports that belong to one holder on the machine; real sockets, servers and processes."""

import os
import signal
import socket
import subprocess  # noqa: TID251 - a holder that is no child of ours
import sys
from contextlib import closing
from urllib.request import urlopen

import pytest

from scaffold.host import tcp_ports
from scaffold.host.tcp_ports import HeldPorts

HOLD = (
    "import sys; from scaffold.host.tcp_ports import HeldPorts;"
    "held = HeldPorts('x', 4); print(*held.ports, flush=True); sys.stdin.read()"
)


@pytest.fixture
def other():
    """Another process that holds ports under the name `x`, and these ports."""
    argv = [sys.executable, "-c", HOLD]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process, tuple(map(int, process.stdout.readline().split()))
        process.kill()


def test_two_processes_never_hold_the_same_port(other):
    """BX-10: under the same name, too; a kill gives the ports back."""
    process, theirs = other
    with closing(HeldPorts("x", 4)) as mine:
        assert len({*mine.ports, *theirs}) == 8
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with closing(HeldPorts("x", 4)) as mine:
        assert mine.ports == theirs, "the same name has the same ports"


@pytest.mark.parametrize(
    "server",
    [[sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1"], [sys.executable, "-u", "-m", "http.server"]],
    ids=["one address", "all addresses"],
)
def test_a_server_can_listen_on_a_held_port_and_nobody_else_gets_it(server):
    """BX-10: the holder has it before, meanwhile and afterwards."""
    with closing(HeldPorts("served", 1)) as held:
        (port,) = held.ports
        running = subprocess.Popen([*server, str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            while "Serving" not in running.stdout.readline():
                assert running.poll() is None
            with urlopen(f"http://127.0.0.1:{port}/") as answer:
                assert answer.status == 200
            with closing(HeldPorts("served", 1)) as second:
                assert second.ports != held.ports
        finally:
            running.kill()
            running.communicate()
        with closing(HeldPorts("served", 1)) as second:
            assert second.ports != held.ports


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_on_which_a_program_listens_is_left_out(address):
    """BX-10: on one address, too, of either kind."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with closing(HeldPorts("taken", 1)) as held:
        (port,) = held.ports
    try:
        server = socket.create_server((address, port), family=family)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    with server, closing(HeldPorts("taken", 1)) as held:
        assert held.ports != (port,)


def test_every_port_of_the_range_is_tried_once():
    assert sorted(tcp_ports._candidate_ports("any")) == [*range(tcp_ports.FIRST, tcp_ports.FIRST + tcp_ports.COUNT)]
