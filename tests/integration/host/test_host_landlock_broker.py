"""Changes at the top of a workspace under Landlock: honest ones, and attempts to reach what is protected there."""

import asyncio
import fcntl
import os
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import structs

from scaffold.host.process.command_runner import run_command
from scaffold.host.sandbox.landlock import broker, stock
from scaffold.host.sandbox.landlock import sandboxed_command as landlock
from scaffold.host.sandbox.landlock.domain import RawSyscalls
from support.landlock_zone import SECRET, Zone

PROBLEM = landlock.unsupported_reason() or (
    "" if broker.is_supported(RawSyscalls()) else "before Linux 5.19 there is no broker"
)
pytestmark = pytest.mark.skipif(bool(PROBLEM), reason=PROBLEM)
STAYING = {".env", ".git", "README", "src"}


@pytest.fixture
def zone(tmp_path):
    tmp_path.chmod(0o755)
    return Zone(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ("echo x > new; cat new; echo y >> new; cat new", "x\nx\ny\n"),
        ("cat > repro.sh << END\necho 42\nEND\nsh repro.sh; chmod +x repro.sh; ./repro.sh", "42\n42\n"),
        ("rm README; ls", "src\n"),
        ("mv README other; cat other; mv other README; cat README", "hello\nhello\n"),
        ("sed -i s/hello/bye/ README; cat README", "bye\n"),
        ("mkdir -p a/b; echo deep > a/b/c; cat a/b/c; rm -r a; ls", "deep\nREADME\nsrc\n"),
        ("echo x > src/tool; chmod +x src/tool; mv src/tool .; cat tool; stat -c %a tool; ls src", "x\n755\n"),
        ("mkdir -p src/a/b; echo x > src/a/b/c; mv src/a top; cat top/b/c; ls src; ls top", "x\nb\n"),
        ("mv README src; cat src/README; mv src/README README; cat README", "hello\nhello\n"),
        ("mv src lib; echo x > lib/y; cat lib/y; mkdir src; echo z > src/z; cat src/z", "x\nz\n"),
        ("ln -s README link; cat link; rm link; ln README twin; cat twin; rm twin; ls", "hello\nhello\nREADME\nsrc\n"),
        (
            "tar cf t.tar src README; mkdir u; tar xf t.tar -C u; cat u/README; rm -r u t.tar; ls",
            "hello\nREADME\nsrc\n",
        ),
        ("umask 027; touch f; mkdir d; umask 0; touch g; stat -c %a f d g", "640\n750\n666\n"),
        ("cd src; echo x > ../new; cd ..; cat $PWD/new; rm $PWD/new; ls", "x\nREADME\nsrc\n"),
        ("printf 'all: out\\nout:\\n\\tcp README out\\n' > Makefile; make -s; cat out", "hello\n"),
        ("exec 3> log; echo one >&3; mv log old; echo two >&3; cat old", "one\ntwo\n"),
        ("set -C; echo x > new; echo y > new; cat new", "x\n"),
    ],
)
async def test_entries_at_the_top_can_be_changed(zone, script, printed):
    """BX-9"""
    before = zone.content()
    finished = await zone.run("bash", "-c", script)
    assert finished.stdout.decode() == printed, finished.stderr
    assert zone.content() == before


async def test_a_virtual_environment_can_be_made_and_used(zone):
    """BX-9"""
    script = "python3 -m venv --without-pip .venv && .venv/bin/python -c 'import sys; print(sys.prefix)'"
    finished = await zone.run("sh", "-c", script)
    assert finished.stdout.decode() == f"{zone.work / '.venv'}\n", finished.stderr


async def test_calls_fail_as_without_a_sandbox(zone):
    code = """
import errno
def attempt(call, *words):
    try:
        call(*words)
    except OSError as error:
        print(errno.errorcode[error.errno])
attempt(os.mkdir, "README")
attempt(os.unlink, "missing")
attempt(os.rmdir, "src")
attempt(os.unlink, "src")
attempt(os.rename, "missing", "new")
attempt(os.rename, "README", "src")
attempt(os.symlink, "x", "README")
attempt(os.link, "missing", "new")
attempt(os.open, "README", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
attempt(os.open, "missing/new", os.O_CREAT | os.O_WRONLY)
attempt(os.mkdir, "n" * 300)
attempt(os.mkdir, "n" * 5000)
attempt(os.rename, "src", "src/below")
"""
    (zone.work / "src" / "kept").touch()
    plain = await run_command(
        [sys.executable, "-I", "-c", f"import os\n{code}"], cwd=zone.work, env=dict(os.environ), timeout_s=20
    )
    confined = await zone.python(code)
    assert confined.stdout == plain.stdout, confined.stderr
    assert b"EEXIST" in plain.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [
        "mkdir .GIT .Mcp.json",
        "mv README .GIT",
        "echo x > ./.mcp.json",
        "cd src; echo x > ../.mcp.json",
        "cd src; mkdir ../.mcp.json",
        "echo x > $PWD/.git/../.mcp.json",
        "echo x > /proc/self/cwd/.mcp.json",
        "ln -s . src/up; echo x > src/up/../.mcp.json",
        "ln -s ../.git src/git; mkdir src/git/new; mv README src/git/config; rm src/git/config; ln -s x src/git/link",
        "mv .git/config config",
        "mv .git/hooks hooks",
        "ln .git/config config",
        "ln -s .git git && echo x > git/config",
        "mv .env env; cat env",
        "ln .env env; cat env",
        "mv ../outside/secret secret; cat secret",
        "ln ../outside/secret secret; cat secret",
        "mv ../outside outside",
        "mv README ../outside/README",
        "mv -T README ../outside/secret",
        "mkdir ../work2 ../outside/new",
        "rm -rf .git .env",
        "rmdir .git/hooks; rm .git/hooks/*",
        "echo x > .git/scaffold-stock-*/new; mv README .git/scaffold-stock-*/f0",
    ],
)
async def test_what_is_protected_at_the_top_stays_as_it_is(zone, attack):
    """BX-9, RA-14"""
    before = zone.content()
    finished = await zone.run("bash", "-c", attack)
    assert finished.stderr
    assert SECRET.encode() not in finished.stdout
    assert zone.content() == before
    assert {path.name for path in zone.work.iterdir()} <= STAYING | {"git"}
    assert {path.name for path in zone.work.parent.iterdir()} == {"outside", "temporary", "work"}


@pytest.mark.parametrize("name", ["twin", "src/twin"])
async def test_another_name_of_a_hidden_file_cannot_be_moved_to_where_it_is_readable(zone, name):
    """BX-9"""
    (zone.work / "twin").hardlink_to(zone.work / ".env")
    for script in (f"mv twin src/other; cat src/other {name}", f"ln twin src/other; cat src/other {name}"):
        assert SECRET.encode() not in (await zone.run("sh", "-c", script)).stdout


@pytest.mark.slow
async def test_changing_paths_while_they_are_read_reaches_nothing_protected(zone):
    """BX-9: one thread exchanges a link and the text of the path while others let us create and move."""
    code = """
import threading, time
libc = ctypes.CDLL(None, use_errno=True)
path = ctypes.create_string_buffer(b"./src/flip/added", 64)
os.symlink("..", "src/flip")
end = time.monotonic() + 2
def exchange():
    number = 0
    while time.monotonic() < end:
        number += 1
        os.symlink(("..", "../.git", "../../outside", ".")[number % 4], "src/next")
        os.rename("src/next", "src/flip")
        path.value = (b"./src/flip/added", b"./.git/added", b".mcp.json", b"../outside/added")[number % 4]
def create():
    while time.monotonic() < end:
        libc.mkdir(path, 0o755)
        libc.rename(b"README", path)
        libc.rename(path, b"README")
        libc.link(b"src/flip/config", b"taken")
        libc.rename(b"src/flip/secret", b"taken")
        libc.unlink(path)
        libc.rmdir(path)
        libc.close(libc.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
threads = [threading.Thread(target=each) for each in (exchange, create, create)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    before = zone.content()
    finished = await zone.python(code)
    assert (finished.exit_code, finished.stderr) == (0, b"")
    assert zone.content() == before
    assert {path.name for path in zone.work.iterdir()} <= STAYING | {"added", "taken"}
    assert {path.name for path in zone.work.parent.iterdir()} == {"outside", "temporary", "work"}


async def test_what_no_stock_is_left_for_can_be_written_but_not_reopened(zone):
    many = stock.FILES + 20
    script = f"for i in $(seq {many}); do echo $i > f$i; done; cat f1; cat f{many}"
    finished = await zone.run("bash", "-c", script)
    assert finished.stdout == b"1\n"
    assert finished.stderr.count(b"ermission denied") == 1
    assert (zone.work / f"f{many}").read_text() == f"{many}\n"
    assert (await zone.run("cat", f"f{many}")).stdout == f"{many}\n".encode()


async def test_the_stock_of_a_killed_broker_is_removed_by_the_next(zone):
    argv = landlock.argv(zone.confinement, ["sh", "-c", "echo $PPID; exec sleep 20"])
    process = await asyncio.create_subprocess_exec(  # noqa: TID251 - it is to be killed alone
        *argv, cwd=zone.work, env=dict(os.environ), stdout=asyncio.subprocess.PIPE
    )
    assert int(await process.stdout.readline()) == process.pid
    os.kill(process.pid, signal.SIGKILL)
    await process.stdout.read()  # the command has ended, too
    await process.wait()
    assert len(left_in(zone.work / ".git")) == 1
    assert (await zone.run("true")).exit_code == 0
    assert left_in(zone.work / ".git") == []


@pytest.mark.parametrize("has_repository", [True, False])
async def test_the_stock_is_not_among_files_of_the_workspace(zone, has_repository):
    """BX-9: `git add` of another program would take it in."""
    hooks = zone.work / ".claude" / "hooks"
    hooks.mkdir(parents=True)
    zone.confinement = structs.replace(zone.confinement, protected=(*zone.confinement.protected, hooks))
    if not has_repository:
        shutil.move(zone.work / ".git", zone.outside)
        (zone.work / ".git").write_text("gitdir: ../outside/.git\n")
    finished = await zone.run("sh", "-c", "ls -d .git/scaf* $TMPDIR/scaffold-stock-*; find . -path './.[!g]*/*stock*'")
    place = ".git" if has_repository else str(zone.temporary)
    assert [line.rpartition("/")[0] for line in finished.stdout.decode().splitlines()] == [place], finished.stderr


async def test_two_commands_at_once_have_stocks_of_their_own(zone):
    scripts = [f"mkdir d{each}; sleep 0.2; echo {each} > d{each}/f; cat d{each}/f" for each in range(4)]
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(zone.run("sh", "-c", script)) for script in scripts]
    assert [each.result().stdout for each in running] == [b"0\n", b"1\n", b"2\n", b"3\n"]
    assert left_in(zone.work / ".git") == []


def test_a_folder_that_another_broker_takes_for_abandoned_is_made_again(tmp_path):
    """BX-9: between its creation and its lock, another command's broker may remove it."""
    parent = os.open(tmp_path, os.O_RDONLY)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: stock.OwnFolder(parent, "x-"), range(400)))
    assert all(os.fstat(each.fd).st_nlink for each in made)
    for each in made:
        os.close(each.fd)
    os.close(parent)


async def test_without_a_broker_entries_at_the_top_cannot_be_changed(zone):
    """Before Linux 5.19, and inside the sandbox of another broker."""
    argv = [
        word
        for word in landlock.argv(zone.confinement, ["sh", "-c", "echo x > new; echo y > src/y; cat src/y"])
        if not word.startswith("notify:")
    ]
    finished = await run_command(argv, cwd=zone.work, env=dict(os.environ), timeout_s=20)
    assert (finished.stdout, finished.stderr.count(b"ermission denied")) == (b"y\n", 1)


async def test_a_sandbox_in_a_sandbox_has_no_broker_but_the_same_limits(zone):
    inner = landlock.argv(zone.confinement, ["sh", "-c", "echo y > src/y; cat src/y; echo x > .git/config"])
    before = zone.content()
    finished = await zone.run(*inner)
    assert (finished.stdout, finished.stderr.count(b"ermission denied")) == (b"y\n", 1)
    assert zone.content() == before


HOSTILE = {
    "a pointer beyond all memory": """
print(ctypes.CDLL(None).syscall({"x86_64": 83, "aarch64": 34}[os.uname().machine], *map(ctypes.c_ulong, [1 << 63] * 3)))
""",
    "a FIFO in the folder for shared memory": """
import glob
os.mkfifo(glob.glob(os.environ["TMPDIR"] + "/scaffold-memory-*")[0] + "/fifo")
print(-(os.open("/dev/shm/fifo", os.O_RDONLY | os.O_CREAT) > 0))
""",
    "a leased file in the folder for shared memory": """
import fcntl, signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open("/dev/shm/leased", os.O_RDWR | os.O_CREAT), fcntl.F_SETLEASE, fcntl.F_WRLCK)
try: os.open("/dev/shm/leased", os.O_RDWR | os.O_CREAT)
except BlockingIOError: print(-1)
""",
    "a command that makes the broker its debugger": """
import signal
signal.signal(signal.SIGUSR1, lambda *_: print(-1))
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
os.kill(os.getpid(), signal.SIGUSR1)
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", HOSTILE.values(), ids=HOSTILE)
async def test_the_broker_answers_further_calls_after(zone, attack):
    """BX-9"""
    finished = await zone.python(f"{attack}\nos.mkdir('made')\nraise SystemExit(7)")
    assert (finished.stdout, finished.exit_code) == (b"-1\n", 7), finished.stderr
    assert (zone.work / "made").is_dir()


async def test_a_command_that_runs_another_program_under_the_broker_as_debugger_goes_on(zone):
    code = "ctypes.CDLL(None).ptrace(0, 0, 0, 0)\nos.execvp('sh', ['sh', '-c', 'echo x > new; cat new'])"
    assert (await zone.python(code)).stdout == b"x\n"


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [".git/scaffold-stock-*/d0", "../temporary/scaffold-memory-*"])
@pytest.mark.parametrize("mode", [0o700, 0])
async def test_what_a_command_leaves_in_the_brokers_folders_is_removed(zone, pattern, mode):
    """BX-9: at any depth, else no later command could start."""
    code = f"""
import glob
os.chdir(glob.glob({pattern!r})[0])
for each in range(2500):
    os.mkdir("deep")
    open("file", "x").close()
    below = os.open("deep", os.O_PATH)
    os.fchdir(below)
    os.close(below)
os.chmod("../../deep", {mode})
os._exit(7)
"""
    assert (await zone.python(code)).exit_code == 7
    assert left_in(zone.work / ".git") == []
    assert list(zone.temporary.iterdir()) == []


@pytest.mark.parametrize("folder", [".git", "../temporary"])
async def test_a_lock_on_a_folder_that_commands_can_read_delays_no_command(zone, folder):
    """BX-9: each command could take such a lock, and hold it while it runs."""
    held = os.open(zone.work / folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        finished = await zone.run("sh", "-c", "echo x > new; cat new")
    finally:
        os.close(held)
    assert finished.stdout == b"x\n"


async def test_a_new_file_is_empty_after_a_move_that_failed(zone):
    code = """
open("src/long", "w").write("left over")
renameat2 = {"x86_64": 316, "aarch64": 276}[os.uname().machine]
print(ctypes.CDLL(None).syscall(renameat2, -100, b"src/long", -100, b"README", 1))
os.close(os.open("new", os.O_WRONLY | os.O_CREAT))
print(os.stat("new").st_size)
"""
    assert (await zone.python(code)).stdout == b"-1\n0\n"


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(stock.PREFIX)]
