"""The bench of patches with recorded verdicts, called as it is documented, on a repository made here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = Path(pytest.__file__).parents[1]
PYTEST = "pytest _pytest py.py pluggy iniconfig packaging pygments"
ENVIRONMENTS = f"""
[[environment]]
name = "calc"
repo = "acme/calc"
setup = ["python3 -m venv .venv", "cd {SITE} && cp -r {PYTEST} $OLDPWD/.venv/lib/python3*/site-packages"]
"""
START = {"calc.py": "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a + b\n"}
ADD = "from calc import add\n\n\ndef test_add():\n    assert add(3, 1) == 4\n"
SUB = "from calc import sub\n\n\ndef test_sub():\n    assert sub(3, 1) == 2\n"
MORE = "from calc import sub\n\n\ndef test_negative():\n    assert sub(1, 3) == -2\n"
BOTH = f"from calc import add, sub\n{ADD.partition('add')[2]}\n\n{SUB.partition('sub')[2].lstrip()}"
RIGHT = START["calc.py"].replace(
    "a + b\n\n\ndef sub(a, b):\n    return a + b", "a + b\n\n\ndef sub(a, b):\n    return a - b"
)
TWO = START["calc.py"].replace("sub(a, b):\n    return a + b", "sub(a, b):\n    return 2")
ZERO = START["calc.py"].replace("sub(a, b):\n    return a + b", "sub(a, b):\n    return 0")


class Source:
    """A repository, and patches of its only commit."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.git("init", "-q", "-b", "main")
        self.write({**START, "tests/test_calc.py": ADD})
        self.git("add", "-A")
        self.git("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-q", "-m", "start")

    def git(self, *args: str) -> str:
        return subprocess.run(["git", *args], cwd=self.folder, capture_output=True, text=True, check=True).stdout

    def write(self, files) -> None:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text)

    def patch(self, **files: str) -> str:
        """Return the diff of these files, by their stems."""
        self.write({("tests/" if name.startswith("test") else "") + f"{name}.py": text for name, text in files.items()})
        self.git("add", "-A")
        diff = self.git("diff", "--cached")
        self.git("reset", "-q", "--hard")
        return diff


def data_of(source: Source) -> list[dict]:
    """Return an instance and its patches: right ones, wrong ones, and one that is recorded wrongly."""
    instance = {
        "kind": "instance",
        "id": "acme__calc-1",
        "repo": "acme/calc",
        "version": "1",
        "base": source.git("rev-parse", "HEAD").strip(),
        "gold": source.patch(calc=RIGHT),
        "test_patch": source.patch(test_calc=BOTH),
        "f2p": ["test_sub"],
        "p2p": ["test_add"],
        "test_cmd": "bin/test tests/test_calc.py",
    }
    patches = {
        "right000": (source.patch(calc=RIGHT, test_more=MORE), True),
        "two00000": (source.patch(calc=TWO), True),
        "zero0000": (source.patch(calc=ZERO), False),
    }
    lines = [
        {"kind": "patch", "id": instance["id"], "hash": name, "patch": patch, "by": [["grader", verdict]]}
        for name, (patch, verdict) in patches.items()
    ]
    return [instance, *lines]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_patches_are_judged_at_each_level_and_a_second_call_goes_on(tmp_path):
    """BX-21: a wrong patch never lands as proven; what only stronger tests tell, they tell."""
    data = data_of(Source(tmp_path / "repos" / "acme__calc"))
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, data)))
    (tmp_path / "environments.toml").write_text(ENVIRONMENTS)
    command = [sys.executable, ROOT / "bench" / "verifier", "--data", tmp_path / "data.jsonl"]
    command += ["--repos", tmp_path / "repos", "--work", tmp_path / "work", "--results", tmp_path / "results.jsonl"]
    command += ["--environments", tmp_path / "environments.toml"]
    hard = ["--level", "official", "--level", "strengthened"]
    for levels in (hard, [*hard, "--level", "existing", "--limit", "1"]):
        done = subprocess.run([*command, *levels], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    found = {(line["level"], line["hash"]): line["ending"]["outcome"] for line in lines if line["type"] == "judged"}
    assert len(lines) == 7 + 3, done.stdout
    assert found["official", "right000"] == found["official", "two00000"] == "proven"
    assert found["strengthened", "right000"] == "proven"
    assert found["official", "zero0000"] == found["strengthened", "zero0000"] == "refused"
    assert found["strengthened", "two00000"] == "refused"  # the tests of the other right patch tell that it is wrong
    assert found["existing", "right000"] == "weak"  # no existing test could tell
    assert "right ones landed 2 of 2 (100.0 %), proven 2 of 2 (100.0 %)" in done.stdout
