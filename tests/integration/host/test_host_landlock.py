"""Commands under Landlock: what they can do, and attempts to escape."""

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from scaffold.host.child_environment import child_environment
from scaffold.host.process.child import start_child
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.process_identity import is_alive
from scaffold.host.sandbox.confinement import Confinement
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.host.sandbox.landlock import syscall_filter
from scaffold.host.sandbox.landlock.domain import SCOPE_SINCE, RawSyscalls
from support.landlock_zone import MAY_RUN_AS_NOBODY, SECRET, Zone, run_as_nobody

pytestmark = pytest.mark.skipif(landlock.unsupported_reason() is not None, reason=str(landlock.unsupported_reason()))


@pytest.fixture
def zone(tmp_path):
    tmp_path.chmod(0o755)
    return Zone(tmp_path)


async def test_ordinary_work_is_possible(zone):
    """BX-9"""
    script = "echo more >> README && echo new > src/new && mv src/new src/newer && mkdir src/a && cat src/newer README"
    finished = await zone.run("sh", "-c", f"{script} && echo kept > $TMPDIR/x && cat $TMPDIR/x > /dev/null")
    assert (finished.exit_code, finished.stdout, finished.stderr) == (0, b"new\nhello\nmore\n", b"")


READS = [
    "cat .env",
    "cat /proc/self/cwd/.env",
    "ln -s ../.env src/link && cat src/link",
    "cp .env src/copy && cat src/copy",
    "ln .env src/hard && cat src/hard",
    "ln -L /proc/self/cwd/.env src/hard && cat src/hard",
    "mv .env src/moved && cat src/moved",
    "mv .env README && cat README",
    "exec 3< .env; cat <&3",
    "cat ../outside/secret",
    "cat /proc/self/root$(dirname $PWD)/outside/secret",
    "chmod 777 ../outside ../outside/secret; cat ../outside/secret",
    "ln ../outside/secret src/s; cat src/s",
    "tar cf - .env ../outside | cat",
]


async def test_hidden_files_are_never_readable(zone):
    """BX-9: each attempt fails, with a reason."""
    why = "$TMPDIR/why"
    script = "\n".join(f"( {attack} ) 2> {why}; cat {why}; test -s {why}; echo attempt: $?" for attack in READS)
    finished = await zone.run("bash", "-c", script)
    assert SECRET.encode() not in finished.stdout + finished.stderr
    ends = [line for line in finished.stdout.decode().splitlines() if line.startswith("attempt: ")]
    assert dict(zip(READS, ends, strict=True)) == dict.fromkeys(READS, "attempt: 0")


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [
        "echo x >> .git/config",
        "echo x > .git/hooks/pre-commit",
        "ln .git/hooks/pre-commit.sample .git/hooks/pre-commit",
        "ln -s ../../src/evil .git/hooks/pre-commit",
        "mv .git .old",
        "mv .git src/git",
        "rm -rf .git",
        "truncate -s 0 .git/config",
        "ln .git/config src/config && echo x > src/config",
        "echo x > src/evil; mv src/evil .git/config",
        "echo x > src/evil; ln src/evil .git/evil",
        "ln -s ../.git src/link && echo x > src/link/config",
        "mkdir .git/new",
        "chmod 777 .git .git/config; echo x > .git/config",
        "echo x > .mcp.json",
        "ln README .mcp.json",
        "ln -s README .mcp.json",
        "mkdir .mcp.json",
        "mv README .mcp.json",
        "mv .mcp.json/../src .mcp.json",
        "mkfifo .mcp.json",
        "echo x > ../escaped",
        "rm -rf ../outside",
        "echo x > ../outside/new",
        "echo x > /tmp/escaped-from-landlock",
        "echo x > /etc/escaped-from-landlock",
        "mknod src/disk b 254 0",
    ],
)
async def test_sealed_and_outside_files_cannot_be_changed(zone, attack):
    """BX-9"""
    before = zone.content()
    finished = await zone.run("bash", "-c", attack)
    assert finished.stderr
    assert zone.content() == before
    assert {path.name for path in zone.work.iterdir()} == {".env", ".git", "README", "src"}
    assert not (zone.work.parent / "escaped").exists()
    assert not any(path.is_block_device() for path in (zone.work / "src").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [
        "os.open('.git/config', os.O_RDONLY | os.O_TRUNC)",
        "open('/proc/self/fd/%d' % os.open('.env', os.O_PATH)).read()",
        "os.open('.', os.O_TMPFILE | os.O_RDWR)",
        "checked(libc.renameat2(-100, b'src', -100, b'.git', 2))",
        "checked(libc.renameat2(-100, b'README', -100, b'.env', 2))",
        "checked(libc.mount(b'none', b'src', b'tmpfs', 0, None))",
        "checked(libc.unshare(0x10000000))",
        "checked(libc.syscall(425, 4, 0))",
        "checked(libc.ptrace(16, outside, 0, 0))",
        "os.chroot('src')",
        "os.setuid(1 + os.getuid())",
        "open('/proc/sys/kernel/core_pattern', 'w')",
        "open('/proc/%d/environ' % outside).read()",
        "open('/proc/%d/mem' % outside, 'rb').read()",
        "os.listdir('/proc/%d/root/' % outside)",
        "os.readlink('/proc/%d/fd/0' % outside)",
        "checked(libc.prlimit(outside, 7, None, ctypes.create_string_buffer(16)))",
        "socket.socket(socket.AF_UNIX)",
        "socket.socket(socket.AF_INET)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET6)",
        "socket.socketpair(type=socket.SOCK_DGRAM)",
        "checked(libc.shmget(0, 4096, 0o1600))",
        "open('/dev/tty')",
        "os.openpty()",
    ],
)
async def test_calls_that_lead_outside_are_refused(zone, attack):
    """BX-9"""
    code = f"""
libc, outside = ctypes.CDLL(None, use_errno=True), {os.getpid()}
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
try:
    {attack}
except OSError:
    print("refused")
"""
    before = zone.content()
    finished = await zone.python(code)
    assert (finished.stdout, finished.stderr) == (b"refused\n", b"")
    assert zone.content() == before


async def test_a_socket_pair_cannot_be_turned_into_a_network_socket(zone):
    """BX-9"""
    path = zone.temporary / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        finished = await zone.python(f"a, b = socket.socketpair()\nb.sendall(b'x')\na.connect({str(path)!r})")
    assert b"OSError: [Errno 106]" in finished.stderr


async def test_a_command_has_no_capabilities_and_none_of_our_descriptors(zone):
    """BX-9"""
    finished = await zone.run("sh", "-c", "grep -E 'Cap|NoNew' /proc/self/status; ls /proc/self/fd | wc -l")
    *lines, descriptors = finished.stdout.decode().splitlines()
    result = dict(line.split(":\t") for line in lines)
    bound = result.pop("CapBnd")  # only root may empty it; without new privileges it grants nothing
    assert result == {**dict.fromkeys(["CapInh", "CapPrm", "CapEff", "CapAmb"], "0" * 16), "NoNewPrivs": "1"}
    assert bound == "0" * 16 or os.geteuid() != 0
    assert int(descriptors) == 4  # input, output, errors and the folder that `ls` reads


@pytest.mark.skipif(
    landlock.unsupported_reason() is not None or RawSyscalls().landlock_version() < SCOPE_SINCE,
    reason="Landlock confines signals since Linux 6.12, and this kernel does not",
)
async def test_signals_to_outside_processes_are_refused(zone):
    """BX-9: to the reaper, too; signal 0 only asks, so little harm is done if this fails."""
    bystander = await start_child(["sleep", "60"], cwd=zone.work, env=dict(os.environ), log=zone.outside / "log")
    finished = await zone.run("bash", "-c", f"kill -9 {bystander.identity.pid}; kill -0 $PPID")
    assert finished.stderr.count(b"not permitted") == 2
    assert is_alive(bystander.identity)
    await bystander.end(0)


async def test_a_missing_command_is_reported_as_without_a_sandbox(zone):
    env = child_environment(os.environ)
    plain = await run_command(["no-such-program"], cwd=zone.work, env=env, timeout_s=20, containment=Containment())
    confined = await zone.run("no-such-program")
    assert (confined.exit_code, confined.stderr) == (plain.exit_code, plain.stderr) == (127, plain.stderr)


async def test_the_end_of_a_command_is_reported_unchanged(zone):
    assert (await zone.run("./README")).exit_code == 126
    assert (await zone.run("sh", "-c", "exit 3")).exit_code == 3
    assert (await zone.run("sh", "-c", "kill -TERM $$")).signal == signal.SIGTERM
    assert (await zone.run("bash", "-c", "yes | head -1; exit ${PIPESTATUS[0]}")).exit_code == 128 + signal.SIGPIPE


async def test_standard_input_can_be_read_and_reopened(zone):
    assert (await zone.run("sh", "-c", "cat /dev/stdin", stdin=b"given")).stdout == b"given"


async def test_without_a_usable_confinement_nothing_runs(zone):
    argv = [word if not word.startswith("filter:") else "filter:00" for word in landlock.argv(zone.confinement, ["id"])]
    finished = await run_command(argv, cwd=zone.work, env=dict(os.environ), timeout_s=20)
    assert (finished.exit_code, finished.stdout) == (126, b"")
    assert b"the sandbox could not be set up" in finished.stderr


async def test_a_shown_path_in_a_system_temporary_folder_is_readable(zone):
    zone.confinement = Confinement(writable=(), temporary=zone.temporary, readable=(zone.outside,))
    assert (await zone.run("cat", str(zone.outside / "secret"))).stdout == SECRET.encode()
    assert (await zone.run("cat", str(zone.work / "README"), cwd=Path("/"))).exit_code == 1


async def test_paths_with_unusual_characters_are_confined(zone):
    odd = zone.work / "a b\nc:ü'\""
    odd.mkdir()
    (odd / "key").write_text(SECRET)
    zone.confinement = Confinement(writable=(zone.work,), temporary=zone.temporary, hidden=(odd,))
    assert (await zone.run("cat", str(odd / "key"))).exit_code == 1
    assert (await zone.run("sh", "-c", "echo x > src/new && cat src/new")).stdout == b"x\n"


async def test_a_hidden_link_hides_its_target(zone):
    target = zone.work / "src" / "target"
    target.write_text(SECRET)
    (zone.work / "link").symlink_to("src/target")
    zone.confinement = Confinement(writable=(zone.work,), temporary=zone.temporary, hidden=(zone.work / "link",))
    assert (await zone.run("cat", "src/target")).exit_code == 1


async def test_a_link_in_place_of_a_writable_folder_grants_nothing(zone):
    """BX-9: a command could have placed it for the next one."""
    (zone.work / "folder").symlink_to(zone.outside)
    zone.confinement = Confinement(
        writable=(zone.work / "folder",), temporary=zone.temporary, readable=(zone.work / "folder",)
    )
    finished = await zone.run("sh", "-c", f"cd {zone.work}; cat folder/secret; echo x > folder/secret", cwd=Path("/"))
    assert finished.stdout == b""
    assert (zone.outside / "secret").read_text() == SECRET


@pytest.mark.parametrize("kinds", ["hidden", "protected"])
async def test_a_link_in_place_of_a_folder_above_a_marked_path_grants_nothing(zone, kinds):
    """BX-9, RA-14: the entries of such a folder get rights of their own, but not those of another folder."""
    confinement = Confinement(
        writable=(zone.work,), temporary=zone.temporary, **{kinds: (zone.work / "src" / "deep" / "key",)}
    )
    (zone.outside / "deep").mkdir()
    (zone.outside / "deep" / "other").write_text(SECRET)
    (zone.work / "src").rmdir()
    (zone.work / "src").symlink_to(zone.outside)
    zone.confinement = confinement
    finished = await zone.run("sh", "-c", "echo x > src/secret; echo x > src/deep/other; echo x > README; cat README")
    assert finished.stdout == b"x\n"
    assert (zone.outside / "secret").read_text() == SECRET
    assert (zone.outside / "deep" / "other").read_text() == SECRET


async def test_a_hard_link_to_a_hidden_file_beside_it_is_hidden_too(zone):
    (zone.work / "twin").hardlink_to(zone.work / ".env")
    (zone.work / "config").hardlink_to(zone.work / ".git" / "config")
    zone.confinement = Confinement(
        writable=(zone.work,),
        temporary=zone.temporary,
        hidden=(zone.work / ".env",),
        protected=(zone.work / ".git" / "config",),
    )
    assert (await zone.run("cat", "twin")).exit_code == 1
    assert (await zone.run("sh", "-c", "cat config && echo x >> config")).stdout == b"[core]\n"
    assert (zone.work / ".git" / "config").read_text() == "[core]\n"


async def test_on_old_kernels_the_filter_blocks_truncation(zone):
    """What the filter does for Linux before 6.2, it does on every kernel."""
    old = syscall_filter.program(os.uname().machine, 2).hex()
    *rest, border = landlock.argv(zone.confinement, [])

    async def expect(exit_code, *command):
        argv = (*rest, f"filter:{old}", border, *command)
        assert (await run_command(argv, cwd=zone.work, env=dict(os.environ), timeout_s=20)).exit_code == exit_code

    await expect(0, "truncate", "-s", "3", "README")  # it opens the file for writing
    await expect(1, sys.executable, "-I", "-S", "-c", "import os; os.truncate('README', 0)")
    assert (zone.work / "README").read_text() == "hel"


@MAY_RUN_AS_NOBODY
async def test_an_ordinary_user_is_confined_as_well():
    """BX-9"""
    script = "id -u; echo new > src/new && cat src/new; cat .env; echo x > .git/config; echo x > .mcp.json"
    finished = await run_as_nobody(["sh", "-c", script])
    assert finished.stdout == b"65534\nnew\n"
    assert finished.stderr.count(b"ermission denied") == 3
