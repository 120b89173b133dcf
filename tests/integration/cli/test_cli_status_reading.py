"""`status` reads: it changes nothing, and loads what it needs alone."""

import os
import subprocess  # noqa: TID251 - what a fresh process loads
import sys


def test_status_as_json_loads_no_drawing_libraries(repository):
    command = [sys.executable, "-X", "importtime", "-m", "scaffold", "status", "--json"]
    done = subprocess.run(command, cwd=repository, env=os.environ.copy(), capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "scaffold.views.run_view" in imported
    assert "rich.console" not in imported


def test_reading_changes_neither_the_checkout_nor_the_store(context, run, scaffold, repository):
    before = context.store.events.last_seq(run.id), context.store.data_version()
    for command in ("status", "tasks", "goals"):
        scaffold(command)
        assert (context.store.events.last_seq(run.id), context.store.data_version()) == before
    assert sorted(path.name for path in repository.iterdir()) == [".git", "app.py"]
