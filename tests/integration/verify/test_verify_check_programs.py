"""What a contract's checks start is looked up where they will run, before anything is paid for."""

import shutil
import sys
from pathlib import Path

import pytest
from msgspec import structs

from scaffold.core.proof.contract import Check, CheckResult, Contract, ExitCode
from scaffold.core.proof.not_ready import MissingProgram, read_missing_program
from scaffold.git import refs
from scaffold.host.child_environment import child_environment
from scaffold.verify.contract.check_runs import Tree, run_check
from scaffold.verify.environment.check_programs import (
    WorkScope,
    missing_program,
    names_program,
    program_not_started,
    work_may_bring,
)

PYTHON = Path(sys.executable).resolve()
DOCUMENT = WorkScope(("DOC.md",), installs=True)


@pytest.fixture
async def tree(harness):
    head = await refs.resolve(harness.context.git, "HEAD")
    return Tree(git=harness.context.git, base=head, commit=head, environ=dict(harness.context.environ))


async def missing(tree, command, scope=DOCUMENT, **fields):
    found = await missing_program(Contract(commands=(Check(command=command, **fields),)), tree, scope)
    return found.program if found else None


@pytest.mark.parametrize(
    "command",
    [
        "no-such-tool DOC.md",
        "test -f DOC.md && no-such-tool DOC.md",
        "cat DOC.md | no-such-tool",
        "cd / && no-such-tool",
        "command -v no-such-tool && no-such-tool",
        "sh -c 'no-such-tool DOC.md'",
        "timeout 5 no-such-tool",
        "LEVEL=3 env COLOR=never no-such-tool",
    ],
)
async def test_a_program_that_is_nowhere_is_named(tree, command):
    """AL-10, BX-4: whatever comes before it in the command."""
    assert await missing(tree, command) == "no-such-tool"


async def test_the_python_without_a_module_is_named_not_its_alias(tree, tmp_path):
    """AL-10: where there is only `python3`, that is where the module has to be installed."""
    (tmp_path / "python3").symlink_to(PYTHON)
    bare = structs.replace(tree, environ=child_environment({**tree.environ, "PATH": str(tmp_path)}))
    contract = Contract(commands=(Check(command="python -m no_such_module"),))
    missed = await missing_program(contract, bare, DOCUMENT)
    assert missed is not None
    assert (missed.program, missed.environment) == ("python -m no_such_module", str(tmp_path / "python3"))


@pytest.mark.parametrize(
    "command",
    [
        "true; test -f DOC.md && [ -s DOC.md ]",
        "./build.sh && bin/tool --check",
        "no-such-tool || test -f DOC.md",
        "if command -v no-such-tool; then no-such-tool; fi",
        "no-such-tool; test -f DOC.md",
        "PATH=bin:$PATH no-such-tool",
        ". ./env.sh && no-such-tool",
        "! no-such-tool",
        "$RUNNER DOC.md",
        "python3 -m unittest -q",
        "docker compose up",
    ],
)
async def test_what_the_work_makes_or_an_alternative_replaces_is_not_missing(tree, command):
    """AL-10: honest checks are not refused."""
    found = await missing(tree, command)
    assert found in {None, "docker"}, "but for a docker that this machine may lack"


async def test_a_module_is_missing_unless_the_work_may_bring_it(tree):
    """AL-10: a runner's module is no file of the work; a module that its files may be is."""
    command = "python3 -m scaffold_absent_module"
    assert await missing(tree, command) == command
    assert await missing(tree, command, WorkScope(("src/scaffold_absent_module",), installs=False)) is None
    assert await missing(tree, command, WorkScope((), installs=False)) is None


async def test_work_that_may_change_a_manifest_may_bring_its_programs(tree):
    """AL-10: where set-up commands may run, what the work adds is installed for its checks."""
    for files in ((), ("package.json",), ("**",)):
        assert await missing(tree, "no-such-tool", WorkScope(files, installs=True)) is None
        assert await missing(tree, "no-such-tool", WorkScope(files, installs=False)) == "no-such-tool"


async def test_an_optional_check_and_one_that_expects_the_failure_need_no_program(tree):
    """AL-8."""
    assert await missing(tree, "no-such-tool", required=False) is None
    assert await missing(tree, "no-such-tool", expect=ExitCode(127)) is None


def test_the_reason_of_an_action_can_be_read_again():
    """AL-10."""
    found = MissingProgram("go vet", "the sandbox of checks (PATH=/usr/local.d/bin:/bin)", "Install it; or not")
    assert read_missing_program(f"{found.what}. {found.fix}") == found
    assert read_missing_program("environment_not_ready: something else. Do this.") is None


BEHIND = {
    "sh check.sh": ({"check.sh": "echo begins\nno-such-tool DOC.md\n"}, "no-such-tool"),
    "sh outer.sh": ({"outer.sh": "sh check.sh", "check.sh": "exec no-such-tool"}, "no-such-tool"),
    "make test": ({"Makefile": "test:\n\tno-such-tool DOC.md\n"}, "no-such-tool"),
    "make -C sub": ({"sub/Makefile": "test:\n\t@true && no-such-tool DOC.md\n"}, "no-such-tool"),
    "./check": ({"check": "#!/usr/bin/env no-such-tool\n"}, "no-such-tool"),
    "bash -c ./check": ({"check": "#!/no/such/python3\n"}, "/no/such/python3"),
    "sh -c ./check": ({"check": "#!/no/such/python3 -u\n"}, "/no/such/python3"),
    "make -f tests.mk": ({"tests.mk": "all:\n\tpython3 -m pytest\n"}, "-m pytest"),
}
NOT_MISSING = {
    "sh ok.sh": {"ok.sh": "no-such-tool; exit 1\n"},
    "sh odd.sh": {"odd.sh": "echo 'x: ls: not found'; exit 127\n"},
    "sh new.sh": {},
    "make -f own.mk": {"own.mk": "all:\n\tpython3 -m module_of_the_work\n"},
    "make made": {"Makefile": "made:\n\tcat no-such-file\n"},
    "python3 -c 'raise SystemExit(127)'": {},
}


async def not_started(tree, command, files, **fields):
    top = tree.git.cwd
    for name, text in files.items():
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(text)
        (top / name).chmod(0o755)
    check = Check(command=command, **fields)
    result = await run_check(check, tree)
    assert result.verdict not in {"pass", "warn"}
    return await program_not_started(Contract(commands=(check,)), {command: result}, tree)


@pytest.mark.parametrize("command", BEHIND)
async def test_a_program_that_a_script_does_not_find_is_named(tree, command, tmp_path_factory):
    """BX-4: behind scripts, make and the first lines of scripts."""
    bare = tmp_path_factory.mktemp("bare")
    (bare / "bin").mkdir()
    settings = f"home = {Path(sys.base_prefix, 'bin')}\ninclude-system-site-packages = false\n"
    (bare / "pyvenv.cfg").write_text(settings)
    (bare / "bin" / "python3").symlink_to(Path(sys.base_prefix, "bin", "python3"))
    tree = structs.replace(tree, environ={**tree.environ, "PATH": f"{bare}/bin:{tree.environ['PATH']}"})
    files, program = BEHIND[command]
    if shutil.which(command.split()[0]) is None and not command.startswith("./"):
        pytest.skip(f"there is no {command.split()[0]}")
    found = await not_started(tree, command, files)
    assert found is not None
    assert found.program.endswith(program)
    assert "Install" in found.fix


@pytest.mark.parametrize("command", NOT_MISSING)
async def test_what_a_failed_check_only_prints_is_not_missing(tree, command):
    """AL-10: what it did not find is looked up, and must have ended it."""
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"there is no {command.split()[0]}")
    assert await not_started(tree, command, NOT_MISSING[command]) is None


LAUNCHED = {
    "uv run no-such-tool --all": "error: Failed to spawn: `no-such-tool`\n  Caused by: No such file or directory",
    "poetry run no-such-tool": "Creating virtualenv x\nCommand not found: no-such-tool",
    "npx no-such-tool DOC.md": "npm error request to https://npm.example/no-such-tool failed",
    "npm exec --no -- no-such-tool": "npm error canceled due to missing packages: [no-such-tool@1.0.0]",
    "pnpm exec no-such-tool": 'ERR_PNPM_RECURSIVE_EXEC_FIRST_FAIL  Command "no-such-tool" not found',
    "tox -e docs": "docs: Exception running subprocess [Errno 2] No such file or directory: 'no-such-tool'",
}
NOT_LAUNCHED = {
    "npm run no-such-tool": 'npm error Missing script: "no-such-tool"',
    "uv run python -c 'raise ValueError'": "python: the value was not found",
    "uv run  no-such-tool": "3 tests failed in no-such-tool",
    "./find no-such-tool": "no-such-tool was not found",
}


async def test_a_program_that_a_launcher_does_not_find_is_named(tree):
    """BX-4: if it says so of the program in its command, and that is missing indeed."""
    for command, said in {**LAUNCHED, **NOT_LAUNCHED}.items():
        check = Check(command=command)
        failed = CheckResult(name=command, verdict="fail", exit_code=1, detail=said)
        found = await program_not_started(Contract(commands=(check,)), {command: failed}, tree)
        expected = "no-such-tool" if (command, said) in LAUNCHED.items() else None
        assert (found.program if found else None) == expected, command


async def test_a_script_of_the_tree_that_is_not_executable_is_named(tree):
    """BX-4: with what to do about it."""
    (tree.git.cwd / "locked").write_text("exit 0\n")
    command = "./locked"
    result = await run_check(Check(command=command), tree)
    found = await program_not_started(Contract(commands=(Check(command=command),)), {command: result}, tree)
    assert found is not None
    assert (found.program, found.fix) == ("./locked", "Commit it as executable")


async def test_a_module_that_a_check_cannot_import_is_named_unless_it_is_in_the_tree(tree):
    """BX-4, AL-10: the work that may make it is asked for separately."""
    command = "python3 check.py"
    for text, named in (("import no_such_lib.part\n", "import no_such_lib"), ("import calc.more\n", None)):
        (tree.git.cwd / "calc.py").touch()
        (tree.git.cwd / "check.py").write_text(text)
        result = await run_check(Check(command=command), tree)
        ran, contract = {command: result}, Contract(commands=(Check(command=command),))
        found = await program_not_started(contract, ran, tree, imports=True)
        assert (found.program if found else None) == named
        assert await program_not_started(contract, ran, tree) is None


async def test_a_program_that_neither_the_contract_nor_the_base_names_is_the_works_own(tree):
    """AL-10: its scripts may call what is not here, and may do without it in the next attempt."""
    lacking = MissingProgram("no-such-tool", "here", "Install it")
    (tree.git.cwd / "tox.ini").write_text("[testenv]\ncommands = no-such-tool\n")
    await tree.git("add", "tox.ini")
    await tree.git("commit", "--quiet", "-m", "an environment")
    tree = structs.replace(tree, base=await refs.resolve(tree.git, "HEAD"))
    for command, changed, named in (
        ("sh x.sh", (), True),
        ("sh x.sh", ("tox.ini",), False),
        ("x no-such-tool", (), True),
    ):
        contract = Contract(commands=(Check(command=command),))
        assert await names_program(lacking, contract, tree, changed) == named


async def test_work_in_files_that_name_a_program_may_do_without_it(tree):
    """AL-10: it is then missing only once the work has failed as its base does."""
    lacking = MissingProgram("no-such-tool", "here", "Install it")
    (tree.git.cwd / "Makefile").write_text("test:\n\tno-such-tool\n")
    await tree.git("add", "Makefile")
    await tree.git("commit", "--quiet", "-m", "a makefile")
    tree = structs.replace(tree, base=await refs.resolve(tree.git, "HEAD"))
    may = {
        files: await work_may_bring(lacking, tree, WorkScope(files, installs=False))
        for files in (("DOC.md",), ("Makefile",), ("bin/no-such-tool.py",), ("bin",), ("*.md",), ())
    }
    assert list(may.values()) == [False, True, True, True, True, True]
