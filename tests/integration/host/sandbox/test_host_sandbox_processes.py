"""How a command in a sandbox ends, its resource limits, and that no process of it survives."""

import asyncio
import os
import signal
import stat
import sys
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.json import encode

from builders import needs
from scaffold.host.process.child import start_child
from scaffold.host.process.command_runner import CommandControl, Containment, OutputCapture, run_command
from scaffold.host.sandbox import bubblewrap
from scaffold.host.sandbox.confinement import Confinement, ResourceLimits, SandboxSpec
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.host.sandbox.mounts import plan_mounts
from scaffold.host.sandbox.proxy import serve_proxy
from scaffold.host.sandbox.seccomp import program

MEBIBYTE = 1 << 20
NAP = f"sleep 61.{os.getpid()}"
"""No other process, not even one of these tests, sleeps as long."""
DAEMON = f"(setsid sh -c 'exec {NAP}' </dev/null >/dev/null 2>&1 &)"


@pytest.fixture
def sleepers(sh):
    """Return the number of processes that these tests left sleeping."""

    async def count():
        return int((await sh(f"ps -eo args | grep -c '^{NAP}$'")).stdout)

    return count


async def test_an_exit_code_or_signal_is_reported_unchanged(inside):
    for code in (0, 1, 3, 126, 127, 255):
        ended = await inside(f"echo out; echo err >&2; exit {code}")
        assert (ended.exit_code, ended.signal, ended.stdout, ended.stderr) == (code, None, b"out\n", b"err\n")
    for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM, signal.SIGPIPE):
        ended = await inside(f"kill -{number.value} $$")
        assert (ended.exit_code, ended.signal) == (None, number)


@pytest.mark.parametrize("network", ["none", "hosts"])
async def test_a_command_that_is_asked_to_end_may_clean_up(inside, workspace, tmp_path, eventually, network):
    """RA-4: the processes that hold the sandbox do not end before the command does."""
    script = (
        "trap 'echo saved > state; (exit 0); echo saved again >> state; exit 7' TERM; touch ready; "
        "while :; do sleep 0.01; done"
    )
    control = CommandControl()
    async with serve_proxy(tmp_path / "proxy", (), is_public=lambda _: True) as (proxy, _):
        options = {"changes": {"network": network}, "proxy": proxy}
        running = asyncio.create_task(inside(script, control=control, **options))
        await eventually((workspace / "ready").exists)
        assert control.terminate()
        finished = await running
    assert (finished.exit_code, finished.signal) == (7, None)
    assert (workspace / "state").read_text() == "saved\nsaved again\n"


@pytest.mark.parametrize("network", ["none", "hosts"])
async def test_a_command_ends_when_it_is_asked_to(inside, workspace, tmp_path, eventually, network):
    """RA-4: SIGTERM has its usual effect on what does not handle it."""
    control = CommandControl()
    async with serve_proxy(tmp_path / "proxy", (), is_public=lambda _: True) as (proxy, _):
        options = {"changes": {"network": network}, "proxy": proxy}
        running = asyncio.create_task(inside(f"touch ready; exec {NAP}", control=control, **options))
        await eventually((workspace / "ready").exists)
        assert control.terminate()
        assert (await running).signal == signal.SIGTERM


@pytest.mark.parametrize(("program", "code"), [("no-such-program", 127), ("/etc/passwd", 126), ("-i", 127)])
async def test_a_program_that_cannot_start_is_reported_as_by_a_shell(inside, program, code):
    finished = await inside([program])
    assert (finished.exit_code, program in finished.stderr.decode()) == (code, True)


async def test_the_environment_is_as_given_plus_writable_folders(inside, zone):
    finished = await inside(["env"], env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "NAME": "Zoë"})
    names = {line.partition("=")[0] for line in finished.stdout.decode().splitlines()}
    places = {"TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "npm_config_cache", "SCAFFOLD_SANDBOX"}
    places |= {"npm_config_fetch_retries", "PIP_RETRIES"}
    assert names - {"PWD"} == {"PATH", "LC_ALL", "NAME"} | places


async def test_stdin_and_long_output_pass_through(inside):
    payload = bytes(range(256)) * 4096
    assert (await inside("cat", stdin=payload, output=OutputCapture(limit_bytes=2_000_000))).stdout == payload


async def test_it_has_no_capabilities_and_can_gain_none(said):
    """BX-9: even if we run as root."""
    output = await said("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; grep ^Cap /proc/1/status")
    lines = dict(line.split(":\t") for line in output.splitlines())
    assert {value for name, value in lines.items() if name.startswith("Cap")} == {"0" * 16}
    assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")


@needs("gcc")
@pytest.mark.parametrize("level", ["bubblewrap", "landlock"])
async def test_a_library_of_an_agent_is_loaded_only_inside_the_sandbox(
    zone, workspace, env, tmp_path, sh, level, bubblewrapped
):
    """BX-9, RA-14: not into the programs that start the sandbox, although the user's variables name its folder."""
    if level == "landlock" and (problem := landlock.unsupported_reason()):
        pytest.skip(problem)
    code = '#include <stdlib.h>\n__attribute__((constructor)) static void load(void) { fopen(getenv("MARK"), "a"); }'
    (workspace / "evil.c").write_text(f"#include <stdio.h>\n{code}\n")
    assert (await sh("gcc -shared -fPIC -o evil.so evil.c", cwd=workspace)).exit_code == 0
    mark = tmp_path / "mark"
    changed = env | {"LD_PRELOAD": str(workspace / "evil.so"), "MARK": str(mark)}
    sandbox = SandboxSpec(level, structs.replace(zone, protected=()), program=bubblewrapped)
    look, walls = ["sh", "-c", 'echo "$LD_PRELOAD"'], Containment(sandbox=sandbox)
    finished = await run_command(look, cwd=workspace, env=changed, timeout_s=30, containment=walls)
    assert finished.stdout.decode() == f"{workspace}/evil.so\n"
    assert not mark.exists()


async def test_it_inherits_only_its_three_streams(inside):
    finished = await inside([sys.executable, "-c", "import os; print(sorted(os.listdir('/proc/self/fd')))"])
    assert finished.stdout == b"['0', '1', '2', '3']\n", "the fourth is the folder that is read"


async def test_it_sees_only_its_own_processes(inside):
    finished = await inside("ls /proc | grep -c '^[0-9]'; cat /proc/1/cmdline | tr '\\0' ' '; kill -9 1; echo alive")
    lines = finished.stdout.decode().splitlines()
    assert int(lines[0]) <= 4
    assert lines[1].startswith("/usr/bin/bwrap") or "bwrap" in lines[1]
    assert lines[-1].endswith("alive")


async def test_no_process_survives_the_command(inside, sleepers):
    """RA-4, BX-17: a daemon, an orphan, a session of its own."""
    finished = await inside(f"{DAEMON}; ({NAP} &) ; setsid {NAP} & exit 4", timeout_s=20)
    assert finished.exit_code == 4
    assert await sleepers() == 0


@pytest.mark.slow
async def test_no_process_survives_a_timeout(inside, sleepers):
    """BX-17"""
    finished = await inside(f"{DAEMON}; trap '' TERM; {NAP}", timeout_s=0.7)
    assert (finished.timed_out, finished.exit_code) == (True, None)
    assert await sleepers() == 0


async def test_no_process_survives_a_cancellation(inside, sleepers, workspace, eventually):
    """RA-19"""
    running = asyncio.create_task(inside(f"{DAEMON}; touch begun; {NAP}"))
    await eventually((workspace / "begun").exists)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await sleepers() == 0


async def test_too_many_processes_are_ended(inside, sleepers):
    """RA-4"""
    brood = f"for i in $(seq 300); do setsid {NAP} & done; wait"
    finished = await inside(brood, changes={"limits": ResourceLimits(processes=100)})
    assert (finished.too_many_processes, finished.exit_code) == (True, None)
    assert await sleepers() == 0


async def test_it_cannot_kill_its_reaper_or_outlive_bubblewrap(inside, sleepers, workspace):
    """BX-17: the reaper has no pid inside, and killing the visible parent ends the command itself."""
    alone = "test $(ls -d /proc/[0-9]* | wc -l) -lt 9 || exit 99"
    finished = await inside(
        f"{DAEMON}; touch begun; {alone}; kill -9 1; kill -9 $PPID; kill -9 -1; sleep 0.2; echo alive"
    )
    assert finished.exit_code == 0, "all are killed but the one that kills, and those whom it cannot name"
    assert (workspace / "begun").exists()
    assert await sleepers() == 0


async def test_memory_is_limited(inside):
    bomb = [sys.executable, "-c", "b = bytearray(300 << 20); print('had it')"]
    finished = await inside(bomb, changes={"limits": ResourceLimits(memory_bytes=200 * MEBIBYTE)})
    assert finished.exit_code == 1
    assert b"MemoryError" in finished.stderr


async def test_file_sizes_are_limited(inside, workspace):
    limits = {"limits": ResourceLimits(file_bytes=MEBIBYTE)}
    finished = await inside(["dd", "if=/dev/zero", "of=long", "bs=64K", "count=100"], changes=limits)
    assert (finished.exit_code, finished.signal) == (None, signal.SIGXFSZ)
    assert (workspace / "long").stat().st_size == MEBIBYTE


async def test_no_limit_can_be_raised_from_inside(inside):
    finished = await inside("ulimit -f unlimited; ulimit -d unlimited; ulimit -c 1; ulimit -c")
    assert finished.stderr.count(b"cannot modify limit") == 3
    assert finished.stdout == b"0\n"


OWNER = """
import asyncio, os, pathlib, sys
from msgspec.json import decode
from scaffold.host.process.command_runner import Containment, run_command
from scaffold.host.sandbox.confinement import SandboxSpec
sandbox = decode(os.environ["SANDBOX"], type=SandboxSpec, dec_hook=lambda kind, value: kind(value))
asyncio.run(run_command(["bash", "-c", os.environ["SCRIPT"]], cwd=pathlib.Path.cwd(), env=os.environ, timeout_s=60,
                        containment=Containment(sandbox=sandbox)))
"""


async def owner(zone, env, script, folder):
    sandbox = encode(SandboxSpec("bubblewrap", zone), enc_hook=str).decode()
    return await start_child(
        [sys.executable, "-c", OWNER],
        cwd=folder,
        env=env | {"SANDBOX": sandbox, "SCRIPT": script},
        log=zone.temporary.parent / "log",
    )


async def test_nothing_is_left_when_we_are_killed(zone, env, workspace, sleepers, eventually, listing, bubblewrapped):
    """BX-17, BX-9: placeholders of sealed paths are removed again, too."""
    us = await owner(zone, env, f"{DAEMON}; touch begun; {NAP}", workspace)
    await eventually((workspace / "begun").exists)
    assert ".mcp.json" in listing(workspace), "held while it runs"
    us.kill()
    assert await us.wait() == -signal.SIGKILL
    await eventually(lambda: listing(workspace) == [".env", "begun"])
    assert await sleepers() == 0


async def test_remains_of_a_killed_reaper_are_harmless_and_removed_by_the_next_one(
    inside, sh, workspace, sleepers, eventually, process_in, listing, tmp_path
):
    """BX-17, BX-9"""
    running = asyncio.create_task(inside(f"{DAEMON}; touch begun; {NAP}"))
    await eventually((workspace / "begun").exists)
    keeper = int((await sh(f"ps -o ppid= -p $(pgrep -f '[b]wrap .*{workspace}' | head -1)")).stdout)
    os.kill(keeper, signal.SIGKILL)
    assert (await running).signal == signal.SIGKILL
    assert await sleepers() == 0
    left = (workspace / ".git").lstat()
    assert (stat.S_ISSOCK(left.st_mode), stat.S_IMODE(left.st_mode)) == (True, 0)
    await sh(f"git init -q {tmp_path}/elsewhere && git -C {tmp_path}/elsewhere status", cwd=workspace)
    assert (await sh("git init -q . 2>&1; cat .mcp.json")).exit_code != 0
    assert (await inside("echo x > .mcp.json")).exit_code != 0
    assert listing(workspace) == [".env", "begun"]


async def test_the_last_of_two_concurrent_commands_removes_the_placeholders(inside, workspace, eventually, listing):
    """BX-9: the first one to end must not remove those of the second."""
    second = "touch begun; until [ -e go ]; do sleep 0.02; done; echo evil > .mcp.json; mkdir .git"
    running = asyncio.create_task(inside(second))
    await eventually((workspace / "begun").exists)
    first = await inside("true")
    (workspace / "go").touch()
    assert first.exit_code == 0
    assert (await running).exit_code != 0
    assert listing(workspace) == [".env", "begun", "go"]


async def test_programs_of_all_kinds_work(inside):
    pool = "import multiprocessing as m; print(m.get_context('fork').Pool(2).map(abs, [-1, 2]))"
    finished = await inside([sys.executable, "-c", pool])
    assert finished.stdout == b"[1, 2]\n"
    node = await inside(
        "command -v node >/dev/null || exit 0; node -e 'process.exit(require(\"os\").tmpdir() ? 7 : 1)'"
    )
    assert node.exit_code in {0, 7}


async def test_bubblewrap_is_never_taken_from_path(inside, env, workspace):
    """BX-9: the PATH of checks begins with folders of the workspace."""
    (workspace / "bwrap").write_text("#!/bin/sh\ntouch ../escaped\n")
    (workspace / "bwrap").chmod(0o755)
    finished = await inside("true", env=env | {"PATH": f"{workspace}:{env['PATH']}"})
    assert finished.exit_code == 0
    assert not (workspace.parent / "escaped").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a command as another user")
async def test_it_confines_an_ordinary_user_like_root(sh, env, tmp_path, bubblewrapped):
    """BX-9"""
    home = Path("/var/tmp") / f"scaffold-ordinary-{os.getpid()}"
    assert (await sh(f"mkdir -p {home}/w && chown -R nobody {home}")).exit_code == 0
    confinement = Confinement(
        writable=(home / "w",), temporary=home / "t", protected=(home / "w" / ".git",), hidden=(Path("/etc/passwd"),)
    )
    try:
        finished = await _as_nobody(
            Path(bubblewrapped), confinement, env, "touch made; mkdir .git; cat /etc/passwd; touch ../x; id -u; ls -A"
        )
        assert finished.stdout == b"65534\n.git\nmade\n", finished.stderr
        assert sorted(path.name for path in (home / "w").iterdir()) == ["made"]
    finally:
        await sh(f"rm -rf {home}")


OPEN_AND_DROP_PRIVILEGES = """
import os, sys
def opened(path):
    number = os.open(path, os.O_PATH)
    os.set_inheritable(number, True)
    return str(number)
words = [opened(word.removeprefix("held:")) if word.startswith("held:") else word for word in sys.argv[1:]]
os.execvp("setpriv", ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *words])
"""


async def _as_nobody(wrapper, confinement, env, script):
    """Run a script in a sandbox as an ordinary user, with an interpreter and a copy of our code that it can read."""
    ground = plan_mounts(confinement)
    for folder in (confinement.temporary, confinement.temporary / "cache"):
        folder.mkdir()
        os.chown(folder, 65534, 65534)
    for path in ground.held:
        os.mknod(path, stat.S_IFSOCK)
    filters = confinement.temporary / "filter"
    filters.write_bytes(program("none"))
    argv = bubblewrap.argv(
        wrapper,
        ground.mounts,
        ["bash", "-c", script],
        cwd=confinement.writable[0],
        network="none",
        descriptors=bubblewrap.Descriptors({}, seccomp=9, status=8),
    )
    try:
        line = f'exec "$@" 9<{filters} 8>/dev/null'
        start = [sys.executable, "-c", OPEN_AND_DROP_PRIVILEGES, *argv]
        return await run_command(
            ["bash", "-c", line, "sh", *start], cwd=Path("/"), env=env, timeout_s=20, containment=Containment()
        )
    finally:
        for path in ground.held:
            path.unlink()
