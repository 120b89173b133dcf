"""Items that agents file for what they find outside of their task."""

import json

import pytest
from inline_snapshot import snapshot

from support.scenario import action, plan_of, write

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def scenario(scenario):
    scenario.configure(quality_gates={"test": "off"})
    return scenario


def file_item(title, **args):
    return {"name": "file_item", "args": {"title": title, **args}}


@pytest.mark.slow
def test_what_an_agent_finds_outside_of_its_task_becomes_an_item_and_changes_no_plan(scenario):
    """AL-32, AL-29: linked to its action, without secrets, once; bad calls are told to the agent."""
    scenario.plan(plan_of(shop=[action("store", effects=["store_there"], check="test -f store.txt")]))
    scenario.cassette(
        store=[
            file_item("The cache\nis never emptied\x1b[2K", description=f"cache.py:12 logs {TOKEN}", labels=["bug"]),
            file_item("the CACHE is never emptied\\x1b[2K"),
            file_item("", labels=["bug"]),
            file_item("x", labels=["no label at all"]),
            write("store.txt", "1\n"),
        ]
    )
    scenario.run("--yes", code=0)
    status = scenario.status()
    assert [each["key"] for each in status["actions"]] == ["store"]
    done = scenario.scaffold("item", "--json")
    (filed,) = json.loads(done.stdout)["items"]
    assert filed["title"] == snapshot("The cache is never emptied\\x1b[2K")
    assert (filed["filed_by"], filed["action"], filed["run"]) == ("agent", "store", status["run"]["id"])
    assert (filed["status"], filed["labels"], filed["ready"]) == ("open", ["bug"], True)
    assert TOKEN not in filed["description"]
    assert "cache.py:12" in filed["description"]
    journal = scenario.journal("shop", "store")
    assert f"Item {filed['id']} says that already" in journal
    assert "Say in `title` what was found" in journal
    assert "a label is not a word" in journal
    assert "File anything else you find" in journal or filed["id"] in scenario.scaffold("logs").stdout
