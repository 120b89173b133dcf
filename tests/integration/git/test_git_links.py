"""Symbolic links to files of the same commit."""

from scaffold.git import refs
from scaffold.git.commits import path_changes
from scaffold.git.trees.links import follow_links, linked_files, resolved_path

LINKS = {"a": "b/c", "b": "d", "up/x": "../a", "out": "../x", "root": "/x", "loop": "loop", "deep/y": "../up/x"}


def test_a_path_leads_through_links_as_the_system_would():
    leads_to = {"plain": "plain", "a": "d/c", "up/x": "d/c", "deep/y": "d/c", "b/./e": "d/e"}
    leads_to |= dict.fromkeys(("out", "root", "loop"))
    assert {path: resolved_path(path, LINKS) for path in leads_to} == leads_to


async def test_a_link_counts_as_the_file_to_which_it_leads(harness):
    """Only if it gives the file another suffix; a link to other code is one."""

    async def committed(script):
        await harness.sh(f"{script}; git add --all; git commit -qm change")
        return await refs.resolve(harness.context.git, "HEAD")

    git = harness.context.git
    first = await committed("echo 1 > one.txt; ln -s one.txt one.py; ln -s one.py alias.py; echo 2 > two.py")
    second = await committed("echo 3 > one.txt; mv two.py two.txt; ln -s two.txt two.py; ln -s gone.txt gone.py")
    assert await linked_files(git, first) == {"one.py": "one.txt", "alias.py": "one.txt"}
    changes = await path_changes(git, first, second)
    found = {each.path: each for each in await follow_links(git, first, second, changes)}
    assert {path: each.kind for path, each in found.items() if not each.is_link} == {
        **dict.fromkeys(("one.txt", "one.py", "alias.py"), "M"),
        "two.txt": "A",
    }
    assert found["one.py"].object_id == found["one.txt"].object_id
    back = await follow_links(git, second, first, await path_changes(git, second, first))
    assert "two.py" not in {each.path for each in back}
