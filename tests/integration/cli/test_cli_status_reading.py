"""`status` reads: it changes nothing, and loads what it needs alone."""


def test_reading_changes_neither_the_checkout_nor_the_store(context, run, scaffold, repository):
    before = context.store.events.last_seq(run.id), context.store.data_version()
    for command in ("status", "tasks", "goals"):
        scaffold(command)
        assert (context.store.events.last_seq(run.id), context.store.data_version()) == before
    assert sorted(path.name for path in repository.iterdir()) == [".git", "app.py"]
