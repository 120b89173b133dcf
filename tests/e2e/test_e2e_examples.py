"""The examples do what they say."""

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from support.documents import blocks
from support.scenario import Scenario

DEMO_FOLDER = "/tmp/scaffold-demo-XXXXXX"
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted(path.parent.name for path in EXAMPLES.glob("*/plan.yaml")))
def test_an_example_plan_lands_completely_on_its_replies(example, tmp_path):
    scenario = Scenario(tmp_path)
    scenario.configure()
    folder = EXAMPLES / example
    checked = scenario.scaffold("plan", "check", str(folder / "plan.yaml"), "--json")
    assert json.loads(checked.stdout)["findings"] == []
    done = scenario.scaffold(
        "run", "--plan", str(folder / "plan.yaml"), "--model", f"cassette:{folder / 'replies.yaml'}", "--yes"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {each["status"] for each in scenario.status()["actions"]} == {"completed"}


@pytest.mark.slow
def test_the_demo_lands_everything_and_its_last_line_says_so(tmp_path):
    """BX-14, AL-28: no key, no server; a conflict and two failures on the way; README.md says how to look at it."""
    scenario = Scenario(tmp_path)
    scenario.configure()
    sample = tmp_path / "sample"
    demo = scenario.command("demo", "--dir", str(sample))
    done = scenario.call(demo, code=0, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == snapshot("landed 7 actions, 7 facts with evidence")
    assert "token-bucket: turnstile/strategies.py: resolved by its functions, classes and imports" in done.stdout
    assert "contract_failed" in done.stdout
    assert scenario.processes() == []
    [look] = [block for block in blocks("README.md") if DEMO_FOLDER in block.text]
    run = json.loads(scenario.scaffold("-C", str(sample), "runs", "--json").stdout)["runs"][0]["id"]
    script = look.text.replace(DEMO_FOLDER, str(sample)).replace("RUN", run)
    scenario.call(["bash", "-euo", "pipefail", "-c", script], code=0)
    assert (sample / "turnstile" / "headers.py").is_file()
    scenario.call(demo, code=64)
