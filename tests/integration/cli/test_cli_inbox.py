"""`status --json` lists what waits for a human."""

from builders import begin, make_run
from scaffold.core.ids import Key
from scaffold.core.model import InboxItem
from scaffold.worker.site import Site


def test_status_lists_what_waits_for_a_human(site: Site, scaffold, plan: str) -> None:
    """BX-13: open items, with what they are about; decided ones are gone."""
    store, now = site.store, site.clock.now()
    run = begin(site, make_run(site, plan))
    action = store.actions.by_key(run.id, Key("store"))
    about = {"run_id": run.id, "goal_id": action.goal_id, "created_at": now}
    asked = [
        InboxItem(id="1", kind="approval", text="May I?", detail={"command": "rm"}, action_id=action.id, **about),
        InboxItem(id="2", kind="question", text="Which?", detail={}, **about),
        InboxItem(id="3", kind="notice", text="Look.", detail={}, **about),
    ]
    with store.transaction():
        for item in asked:
            store.inbox.ask(item)
        store.inbox.decide("3", "answered")
    first, second = scaffold("status", "--json").json["inbox"]
    assert first == {
        "id": "1",
        "kind": "approval",
        "text": "May I?",
        "detail": {"command": "rm"},
        "goal_id": action.goal_id,
        "action": "store",
        "created_at": now.isoformat().replace("+00:00", "Z"),
        "expires_at": None,
    }
    assert (second["id"], second["action"]) == ("2", None)
