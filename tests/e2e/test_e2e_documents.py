"""The commands of README.md and docs/ work as they are written, in a repository with a finished run.

Each block has a copy of that repository of its own, on a machine with the programs that README.md asks for and no
others, where git knows no name of the user: in a namespace, or by PATH alone where there is no sandbox in one. Words
in capitals stand for names, and /tmp for a folder of the test.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from support.documents import PAGES, ROOT, Block, blocks
from support.samples import sign_state
from support.scenario import COMMAND_S, Scenario, calls_entry, create_actions, text_entry, write

pytestmark = pytest.mark.slow

PROGRAMS = (
    *("git", "make", "sh", "basename", "cat", "chmod", "cp", "cut", "date", "dirname", "echo", "env", "expr", "false"),
    *("head", "id", "ln", "ls", "mkdir", "mktemp", "mv", "pwd", "readlink", "realpath", "rm", "rmdir", "seq", "sleep"),
    *("sort", "stat", "tail", "tee", "test", "touch", "tr", "true", "tty", "uname", "uniq", "wc"),
)
"""git, make and the tools of every system; Python is there as `python3` alone, as on Debian and macOS."""
IDENTITY = re.compile(r"^ +set them: `(git .+)`$", re.MULTILINE)
"""What is said to a user whose name git does not know."""
EXPECTED = r"""
waits_for_you='^scaffold (-C [^ ]+ )?run '
trap 'code=$?; [[ $code == 3 && $BASH_COMMAND =~ $waits_for_you && $BASH_COMMAND != *--yes* ]] || exit $code' ERR
"""
"""Each command has to succeed; without a terminal, a `run` without --yes plans, saves the plan, and exits with 3."""
CONTRACT = '```json\n{"intent": "the notes exist", "commands": ["test -f NOTES.md"]}\n```'
FILES = {
    "spec.md": "# Notes\n\nWrite NOTES.md.\n",
    "tasks.json": '[{"description": "Write NOTES.md", "files": ["NOTES.md"]}]\n',
    "error.log": "ImportError: cannot import name 'api'\n",
    "prd.json": '{"userStories": [{"id": "US-001", "title": "Write NOTES.md"}]}\n',
    ".taskmaster/tasks/tasks.json": '{"tasks": [{"id": 1, "title": "Write NOTES.md", "status": "pending"}]}\n',
    "specs/001-shop/tasks.md": "- [ ] T001 Write NOTES.md\n",
    "calls.jsonl": '{"id": 1, "tool": "shell", "args": {"command": "git status"}}\n',
}


class Prepared(NamedTuple):
    """A repository in which the plan of examples/shortener has landed, and what its names are."""

    folder: Path
    environ: Mapping[str, str]
    names: Mapping[str, str]
    namespace: tuple[str, ...]
    """What starts a command in a namespace; empty where it would have another sandbox there."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Land the example; set a model that can plan and do any small task."""
    folder = tmp_path_factory.mktemp("documents")
    scenario = Scenario(folder)
    scenario.configure()
    scenario.git("config", "--global", "user.name", "Ada")
    scenario.git("config", "--global", "user.email", "ada@example.invalid")
    shutil.copytree(ROOT / "examples", scenario.repo / "examples")
    for path in (ROOT / "examples" / "shortener").iterdir():
        shutil.copy(path, scenario.repo)
    for name, text in FILES.items():
        (scenario.repo / name).parent.mkdir(parents=True, exist_ok=True)
        (scenario.repo / name).write_text(text)
    scenario.commit("files that the pages mention")
    scenario.scaffold("run", "--plan", "plan.yaml", "--model", "cassette:replies.yaml", "--yes", code=0)
    notes = {"key": "notes", "description": "Write NOTES.md", "effects": ["notes_written"], "files": ["NOTES.md"]}
    goal = {"name": "notes", "description": "Notes", "goal_state": ["notes_written"]}
    model = scenario.replies(
        calls_entry("planner", {"name": "goap_create_goal", "args": goal}, create_actions("notes", notes), turn=1),
        text_entry("planner", "One goal with one action."),
        text_entry("drafter", CONTRACT),
        text_entry("critic", "Good.\n\nTotal: 9/9\nDONE"),
        calls_entry("implementation", write("NOTES.md", "notes\n"), turn=1),
        calls_entry("coding", write("NOTES.md", "notes\n"), turn=1),
        {"when": {}, "text": "Done."},
        name="any-task.yaml",
    )
    priced = yaml.safe_load(model.read_text())
    model.write_text(yaml.safe_dump(priced | {"prices": {"input_per_mtok": 1.0, "output_per_mtok": 1.0}}))
    run = scenario.status()["run"]["id"]
    for place in ("--global", "--local"):
        scenario.git("config", place, "--remove-section", "user")
    link_programs(scenario.home / "bin")
    environ = {name: value for name, value in scenario.environ.items() if name != "VIRTUAL_ENV"}
    return Prepared(
        folder,
        environ | {"SCAFFOLD_MODEL": f"cassette:{model}"},
        {"RUN": run, "ACTION": "store", "GOAL": "shortener"},
        namespace(scenario),
    )


def namespace(scenario: Scenario) -> tuple[str, ...]:
    """Return what starts a command where /usr/bin has the promised programs alone."""
    if scenario.unheld or (program := shutil.which("bwrap")) is None:
        return ()
    names = (*PROGRAMS, "bash", "python3")
    promised = [path for name in names if (path := Path("/usr/bin", name)).exists()]
    words = [program, "--dev-bind", "/", "/", "--tmpfs", "/usr/bin"]
    for file in sorted({each.resolve() for each in (*promised, Path(sys.executable))}):
        words += ["--ro-bind", str(file), str(file)]
    for link in filter(Path.is_symlink, promised):
        words += ["--symlink", str(link.resolve()), str(link)]
    inside = scenario.call([*words, *scenario.command("doctor")]).stdout
    return tuple(words) if re.search(r"ok +sandbox +bubblewrap", inside) else ()


def link_programs(folder: Path) -> None:
    """Make a folder of all programs that there are on the machine of the pages, our two commands among them."""
    folder.mkdir()
    for name in PROGRAMS:
        if found := shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}{os.defpath}"):
            (folder / name).symlink_to(found)
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    for name in ("scaffold", "ralph"):
        (folder / name).symlink_to(Path(sys.executable).with_name(name))


def script(block: Block, names: Mapping[str, str], folder: Path) -> str:
    """Return what bash executes for a block."""
    text = block.text.replace("/tmp/", f"{folder}/")
    for name, value in names.items():
        text = re.sub(rf"\b{name}\b", value, text)
    return f"{EXPECTED}{text}exit 0\n"


def to_run(page: str) -> list[Block]:
    """Return the blocks of commands of a page that are not marked as not run."""
    return [block for block in blocks(page) if block.language == "sh" and block.reason is None]


@pytest.mark.parametrize("page", [page for page in PAGES if to_run(page)])
def test_the_commands_of_a_page_work_as_they_are_written(page: str, prepared: Prepared, tmp_path: Path) -> None:
    """Every block of commands that is not marked as not run, each in a copy of its own."""
    for number, block in enumerate(to_run(page)):
        done = run_block(block, prepared, tmp_path / str(number))
        if said := IDENTITY.search(done.stdout):
            done = run_block(block, prepared, tmp_path / f"{number}-again", first=said[1])
        assert done.returncode == 0, f"{block.place} ended with {done.returncode}\n{block.text}\n{done.stdout}"


def run_block(
    block: Block, prepared: Prepared, folder: Path, *, first: str = "true"
) -> subprocess.CompletedProcess[str]:
    """Run the commands of a block in a copy of the repository, after a `first` one; return what they print."""
    shutil.copytree(prepared.folder, folder, symlinks=True)
    sign_state(folder / "repo" / ".git" / "scaffold" / "state.db", home=folder / "home" / "scaffold")
    home = {"HOME": str(folder / "home"), "SCAFFOLD_HOME": str(folder / "home" / "scaffold")}
    return subprocess.run(
        [
            *prepared.namespace,
            shutil.which("bash") or "bash",
            "-uo",
            "pipefail",
            "-c",
            f"{first}\n{script(block, prepared.names, folder)}",
        ],
        cwd=folder / "repo",
        env={**prepared.environ, **home, "PATH": str(folder / "home" / "bin")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
