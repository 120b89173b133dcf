"""The environment of a run's checks, by the real command."""

import asyncio
import subprocess
import sys

import pytest

from builders import bubblewrap_or_skip
from support.prd_scenario import done_steps, prd_file, story
from support.scenario import action, plan_of, shell, write

ADD = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"
CHECK = "cd / && python -c 'import calc; assert calc.add(1, 1) == 2; print(calc.__file__)'"
FIRST_OF_ALL = """\
import importlib.util, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == "calc":
            return importlib.util.spec_from_file_location(name, "{place}/src/calc/__init__.py")
sys.meta_path.insert(0, Finder)
"""


@pytest.fixture
def scenario(scenario):
    (scenario.repo / "src" / "calc").mkdir(parents=True)
    (scenario.repo / "src" / "calc" / "__init__.py").write_text(ADD)
    (scenario.repo / "pyproject.toml").write_text('[project]\nname = "calc"\nversion = "1"\n')
    (scenario.repo / ".gitignore").write_text("/.venv\n/.scaffold\n")
    scenario.commit("calc")
    return scenario


def installed(scenario):
    """Give the user's checkout a virtual environment; return the folder of its packages."""
    made = [sys.executable, "-m", "venv", "--without-pip", str(scenario.repo / ".venv")]
    subprocess.run(made, check=True, env=scenario.environ)
    return next((scenario.repo / ".venv" / "lib").glob("*/site-packages"))


def changes(scenario, content, check=CHECK):
    scenario.plan(plan_of(sums=[action("add", effects=["adds"], check=check, files=["src"])]))
    scenario.cassette(add=[write("src/calc/__init__.py", content)])
    return scenario.run("--yes")


@pytest.mark.slow
@pytest.mark.parametrize(("content", "landed"), [(WRONG, False), (f"{ADD}\n\nTWO = 2\n", True)])
def test_the_worktree_is_tested_although_the_users_installation_is_editable(scenario, content, landed):
    """AL-9, BX-4: checks import the candidate's code, not that of the user's checkout."""
    (installed(scenario) / "_calc.pth").write_text(f"{scenario.repo}/src\n")
    done = changes(scenario, content)
    assert (done.returncode == 0) == landed, done.stdout
    branch = scenario.git("branch", "--list", "--format=%(refname:short)", "session-*").strip() if landed else "main"
    assert scenario.git("show", f"{branch}:src/calc/__init__.py") == (content if landed else ADD)


@pytest.mark.slow
def test_a_run_whose_checks_would_import_other_code_ends_before_money_is_spent(scenario):
    """environment_not_ready: with the cause and the fix."""
    packages = installed(scenario)
    (packages / "_calc_finder.py").write_text(FIRST_OF_ALL.format(place=scenario.repo))
    (packages / "_calc.pth").write_text("import _calc_finder\n")
    done = changes(scenario, ADD)
    assert done.returncode == 1, done.stdout
    assert "environment_not_ready" in done.stdout + done.stderr
    assert f"checks would load calc from {scenario.repo}/src/calc/__init__.py" in done.stdout + done.stderr
    assert not list((scenario.repo / ".scaffold" / "logs").glob("*/add.jsonl"))


@pytest.mark.slow
def test_an_action_whose_check_has_no_program_here_ends_before_money_is_spent(scenario):
    """AL-10, BX-4: with the program, the environment and the remedy; once it is there, the action can be retried."""
    tools = scenario.home / "bin"
    tools.mkdir()
    scenario.environ["PATH"] = f"{tools}:{scenario.environ['PATH']}"
    check = "test -s src/made && no-such-checker src/made"
    scenario.plan(plan_of(sums=[action("add", effects=["adds"], check=check, files=["src"])]))
    scenario.cassette(add=[write("src/made", "text")])
    scenario.run("--yes", code=1)
    (ended,) = scenario.status()["actions"]
    reason = ended["reason"]
    assert (reason["kind"], reason["program"]) == ("environment_not_ready", "no-such-checker")
    assert "PATH=" in reason["environment"]
    assert reason["fix"].endswith("then `scaffold retry add` and `scaffold resume`")
    assert [attempt["tokens"] for attempt in ended["attempts"]] == [0]
    program = tools / "no-such-checker"
    program.write_text("#!/bin/sh\ntest -s $1\n")
    program.chmod(0o755)
    scenario.scaffold("retry", "add", code=0)
    scenario.scaffold("resume", code=0)
    assert scenario.status()["actions"][0]["status"] == "completed"


@pytest.mark.slow
@pytest.mark.parametrize(("files", "paid"), [(["made.md"], False), ([], True)])
def test_a_program_that_only_a_script_names_costs_at_most_one_attempt(scenario, files, paid):
    """BX-4, AL-10: none if the work cannot bring it, one if it may; never three."""
    (scenario.repo / "check.sh").write_text("test -s made.md && no-such-checker made.md\nno-such-checker\n")
    scenario.git("add", "check.sh")
    scenario.git("commit", "--quiet", "-m", "a check")
    scenario.plan(plan_of(sums=[action("add", effects=["adds"], check="sh check.sh", files=files)]))
    scenario.cassette(add=[write("made.md", "text")])
    scenario.run("--yes", code=1)
    (ended,) = scenario.status()["actions"]
    assert (ended["reason"]["kind"], ended["reason"]["program"]) == ("environment_not_ready", "no-such-checker")
    assert [attempt["tokens"] > 0 for attempt in ended["attempts"]] == [paid]


@pytest.mark.slow
def test_a_check_sees_nothing_that_the_agent_left_outside_its_worktree(scenario):
    """BX-9, AL-9: neither in the temporary folder nor in caches or shared memory."""
    asyncio.run(bubblewrap_or_skip())
    places = ("$TMPDIR", "$XDG_CACHE_HOME", "/dev/shm")
    left = "; ".join(f"echo cheat > {place}/left" for place in places)
    check = " && ".join(["test -e src/made", *(f"test -w {place} && test ! -e {place}/left" for place in places)])
    scenario.plan(plan_of(sums=[action("add", effects=["adds"], check=check, files=["src"])]))
    scenario.cassette(add=[shell(f"{left}; cat {'/left '.join(places)}/left > src/made")])
    scenario.run("--yes", code=0)
    branch = scenario.git("branch", "--list", "--format=%(refname:short)", "session-*").strip()
    assert scenario.git("show", f"{branch}:src/made") == "cheat\n" * 3, "the agent could write there"


@pytest.mark.slow
def test_setup_runs_once_when_trusted_and_services_run_beside_each_check(scenario):
    """AL-9: nothing of a repository runs before its folder is trusted; then each checkout gets the installed files."""
    asyncio.run(bubblewrap_or_skip())  # Landlock lets no service listen
    setup = f"'{sys.executable}' -m venv --without-pip .venv && echo made > .venv/made"
    serve = f"exec '{sys.executable}' -m http.server 8124 @8124"
    scenario.scaffold("config", "setup", setup, code=0)
    scenario.scaffold("config", "services", serve, code=0)
    ask = "python -c 'import urllib.request as u; u.urlopen(\"http://127.0.0.1:8124/.venv/made\")'"
    untrusted = changes(scenario, f"{ADD}\n\nTWO = 2\n", check=ask)
    assert untrusted.returncode == 1, untrusted.stderr
    scenario.scaffold("trust", "--yes", code=0)
    scenario.cassette(add=[write("src/calc/__init__.py", f"{ADD}\n\nTWO = 2\n")])
    scenario.run("--yes", code=0)


@pytest.mark.slow
@pytest.mark.parametrize("own", ["pytest", "ruff check src"])
def test_a_linter_that_the_projects_own_checks_never_run_only_warns(scenario, own):
    """AL-8, BX-4: it is configured, and its tool is installed; the report, the contract and the baseline say so."""
    installed(scenario)
    linter = scenario.repo / ".venv" / "bin" / "ruff"
    linter.write_text(
        "#!/bin/sh\n! grep -q os src/calc/__init__.py || { echo src/calc/__init__.py:1:1: F401 os; exit 1; }\n"
    )
    linter.chmod(0o755)
    (scenario.repo / "ruff.toml").write_text("")
    (scenario.repo / "tox.ini").write_text(f"[testenv]\ncommands = {own}\n")
    scenario.commit("lint")
    done = changes(scenario, f"import os\n{ADD}")
    if own != "pytest":
        assert done.returncode == 1
        assert "src/calc/__init__.py: F401" in scenario.scaffold("contract", "add").stdout
        return
    assert done.returncode == 0, done.stdout
    assert "lint: new_failure, 1 new_failure, which only warns" in done.stdout
    shown = scenario.scaffold("contract", "add").stdout
    assert "it only warns: no check of the project's own set-up runs it" in shown
    assert "new_failure src/calc/__init__.py: F401" in shown
    assert "only warns" in scenario.scaffold("baseline").stdout


INSTALL = (
    f"'{sys.executable}' -m venv --without-pip .venv && for name in $(cat requirements.txt); do "
    "echo NAME = 1 > .venv/lib/$(ls .venv/lib)/site-packages/$name.py; done"
)


def adds_a_dependency(scenario, lines="right", *flags):
    """Let the work add a dependency to the manifest, and code that imports it, which the project's own tests cover."""
    (scenario.repo / "requirements.txt").write_text("left\n")
    (scenario.repo / "tests").mkdir(exist_ok=True)
    test = (
        "import unittest\n\nimport calc\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        calc.add(1, 2)\n"
    )
    (scenario.repo / "tests" / "test_sums.py").write_text(test)
    scenario.commit("requirements")
    scenario.scaffold("config", "setup", INSTALL, code=0)
    check = "python -c 'import left, calc'"
    scenario.plan(plan_of(sums=[action("add", effects=["adds"], check=check, files=["src", "requirements.txt"])]))
    changed = write("src/calc/__init__.py", f"import right\n{ADD}")
    scenario.cassette(add=[write("requirements.txt", f"left\n{lines}\n"), changed])
    return scenario.run("--yes", *flags)


@pytest.mark.slow
def test_a_new_dependency_of_the_work_is_set_up_for_its_checks(scenario):
    """AL-9, AL-10: set-up runs again for a changed manifest, where it may run."""
    scenario.scaffold("trust", "--yes", code=0)
    done = adds_a_dependency(scenario)
    assert done.returncode == 0, done.stdout + scenario.scaffold("contract", "add").stdout
    prepared = list((scenario.home / "scaffold" / "cache" / "environments").glob("*/made.json"))
    assert len(prepared) == 2, "one for the base, one for the candidate"


@pytest.mark.slow
def test_a_new_dependency_that_may_not_be_set_up_is_named_with_what_to_do(scenario):
    (installed(scenario) / "left.py").write_text("NAME = 1\n")
    done = adds_a_dependency(scenario)
    assert done.returncode == 1, done.stdout
    shown = " ".join(scenario.scaffold("contract", "add").stdout.split())
    assert "Not installed here: right. `scaffold trust` lets set-up install" in shown


@pytest.mark.slow
def test_an_entry_that_leads_away_from_the_index_waits_for_an_approval(scenario):
    """BX-9, BX-13: nothing is set up before; then the evidence says that the work took part."""
    scenario.scaffold("trust", "--yes", code=0)
    done = adds_a_dependency(scenario, "right\n--no-index")
    assert done.returncode == 3, done.stdout
    (item,) = scenario.inbox()
    assert item["text"].endswith("? requirements.txt: --no-index")
    environments = scenario.home / "scaffold" / "cache" / "environments"
    assert len(list(environments.glob("*/made.json"))) == 1, "the base's alone"
    scenario.scaffold("approve", item["id"], code=0)
    done = scenario.scaffold("resume")
    assert done.returncode == 0, done.stdout + scenario.scaffold("contract", "add").stdout
    assert "the work took part in making the environment" in scenario.scaffold("contract", "add").stdout


@pytest.mark.slow
def test_an_entry_that_nobody_is_asked_about_is_not_obeyed_and_named(scenario):
    """BX-9"""
    scenario.scaffold("trust", "--yes", code=0)
    done = adds_a_dependency(scenario, "right\n--no-index", "--yolo")
    assert done.returncode == 1, done.stdout
    shown = " ".join(scenario.scaffold("contract", "add").stdout.split())
    assert "Set-up did not use `requirements.txt: --no-index`: nobody agreed to it. Take a package of the" in shown


@pytest.mark.slow
@pytest.mark.parametrize("editable", [False, True])
def test_work_that_moves_the_package_to_another_source_folder_is_imported_from_there(scenario, editable):
    """AL-10: the user's installation still leads to the old one, in the user's checkout."""
    scenario.git("mv", "src/calc", "calc")
    scenario.commit("flat")
    packages = installed(scenario)
    if editable:
        (packages / "_calc.pth").write_text(f"{scenario.repo}\n")
    check = f"cd / && {CHECK.partition('&& ')[2]}" if editable else CHECK.partition("&& ")[2]
    scenario.plan(plan_of(sums=[action("add", effects=["adds"], check=check, files=["src", "calc"])]))
    scenario.cassette(add=[shell("mkdir -p src && mv calc src/calc && echo TWO = 2 >> src/calc/__init__.py")])
    done = scenario.run("--yes")
    assert done.returncode == 0, done.stdout + scenario.scaffold("contract", "add").stdout


@pytest.mark.slow
def test_a_module_that_only_the_users_checkout_has_is_named_with_what_to_do(scenario):
    """AL-10: git ignores it, so no worktree has it."""
    (scenario.repo / ".gitignore").write_text("/.scaffold\nlocal_settings.py\n")
    (scenario.repo / "src" / "calc" / "__init__.py").write_text("from calc import local_settings\n")
    (scenario.repo / "test_calc.py").write_text("import calc\n\n\ndef test_calc():\n    assert calc\n")
    scenario.commit("settings")
    (scenario.repo / "src" / "calc" / "local_settings.py").write_text("KEY = 1\n")
    scenario.configure(quality_gates={"test": f"{sys.executable} -m pytest -q"})
    done = changes(scenario, ADD)
    assert done.returncode == 1, done.stdout
    assert "Name src/calc/local_settings.py, which git ignores, in .worktreeinclude" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("check", ["no-such-checker --all", "sh check.sh"])
def test_a_story_whose_check_has_no_program_here_ends_before_its_first_step_is_paid(scenario, check):
    """BX-4, AL-10, DR-2: with the program and the remedy, also if only a script of the repository names it."""
    (scenario.repo / "check.sh").write_text("test -e made.md || exec no-such-checker\nno-such-checker\n")
    scenario.commit("a check")
    plan = scenario.home / "plan.yaml"
    given = prd_file(scenario, {"userStories": [story(1, files=["made.md"])]})
    scenario.scaffold("plan", *given, "-o", plan, code=0)
    text = plan.read_text()
    contract = f"    files: [made.md]\n    contract: {{commands: ['{check}']}}\n"
    plan.write_text(text.replace("    kind: compound\n", f"    kind: compound\n{contract}", 1))
    scenario.replies(*done_steps())
    scenario.run("--yes", code=1)
    ended = [each for each in scenario.status()["actions"] if each["attempts"]]
    assert [each["key"] for each in ended] == ["US-001/step-001"]
    assert (ended[0]["reason"]["kind"], ended[0]["reason"]["program"]) == ("environment_not_ready", "no-such-checker")
    assert [attempt["tokens"] for attempt in ended[0]["attempts"]] == [0]
