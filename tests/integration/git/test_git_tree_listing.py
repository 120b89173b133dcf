"""The listing of a tree, derived from that of another commit and the change between them."""

import os
from itertools import pairwise, permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scaffold.git import commits
from scaffold.git.client.answer_cache import DIFFERENCES, MAX_LISTINGS, Answers, TreeListing
from scaffold.git.client.command_line import Git

# Names around the slash in git's order, one in which folder and file trade places, one that is not UTF-8.
NAMES = ("a", "a.b", "a/b", "a/b/c", "a-b/c", "Z", "ä", "\udcff", "\uffff")
ENTRIES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(("100644 1", "120000 2", "160000 3")))


def _listing(entries):
    split = {path: tuple(entry.split()) for path, entry in entries.items()}
    return TreeListing(sorted(split, key=os.fsencode), split)


def _read(listing):
    return listing.paths, [listing.with_mode(mode) for mode in ("100", "120000", "160000")]


@given(before=ENTRIES, after=ENTRIES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_listing_is_the_one_of_the_changed_tree(before, after):
    """BX-23: in git's order, with the modes and ids that are there then."""
    changes = {
        path: tuple(after[path].split()) if path in after else None
        for path in {**before, **after}
        if before.get(path) != after.get(path)
    }
    assert _read(_listing(before).changed(changes)) == _read(_listing(after))


@pytest.fixture
async def history(sh, repo):
    """The commits of a repository in which files, folders and links come, change, move and go."""
    steps = [
        "rm a && mkdir -p a/b c && echo 1 > a/b/x && echo 2 > a.txt && echo 3 > c/y && ln -s a.txt link",
        "git rm -rq a && echo 4 > a && chmod +x c/y",
        "rm link && echo 5 > link && git mv c d && printf 6 > 'ä\tb'",
        "git rm -q a && mkdir a && echo 7 > a/z",
    ]
    for step in steps:
        await sh(f"{step} && git add -A && git commit -qm step")
    return (await repo.git("rev-list", "--reverse", "HEAD")).line.split()


async def test_a_listing_is_derived_without_git_where_the_difference_is_known(repo, history):
    """BX-23: of each landing, only the change is read."""
    fresh = Git(repo.root, environ=repo.git.environ)
    await commits.listed_paths(repo.git, history[0])
    for old, new in pairwise(history):
        await commits.path_changes(repo.git, old, new)
        # Known without git: nothing could be read here.
        nowhere = Git(repo.root / "nowhere", environ=repo.git.environ, answers=repo.git.answers)
        assert await commits.listed_paths(nowhere, new) == await commits.listed_paths(fresh, new)
        assert await commits.listed_files(nowhere, new) == await commits.listed_files(fresh, new)
        assert await commits.listed_links(nowhere, new) == await commits.listed_links(fresh, new)


def test_the_latest_listings_are_kept_of_commits_named_by_their_whole_ids():
    answers, listing = Answers(), TreeListing((), {})
    ids = [f"{number:040}" for number in range(MAX_LISTINGS)]
    for commit in ids:
        answers.keep_listing(commit, listing)
    answers.listing(ids[0])
    for commit in ("HEAD", "f" * 40):
        answers.keep_listing(commit, listing)
    assert [*answers.listed()] == ["f" * 40, ids[0], *reversed(ids[2:])]
    assert answers.listing("HEAD") is answers.listing(ids[1]) is None


async def test_a_difference_is_derived_without_git_from_two_others_and_backwards(repo, history):
    """BX-23: what changed since the base of a run is what had changed before, and what the last commit changes."""
    asked = {pair: Git(repo.root, environ=repo.git.environ) for pair in permutations(history, 2)}
    by_git = {pair: await commits.path_changes(git, *pair) for pair, git in asked.items()}
    for first, middle, last in permutations(history, 3):
        nowhere = Git(repo.root / "nowhere", environ=repo.git.environ)
        for known in ((first, middle), (last, middle)):
            nowhere.answers.keep(DIFFERENCES, known, asked[known].answers.find((*DIFFERENCES, *known)))
        for pair in ((first, last), (last, first), (middle, first)):
            assert await commits.path_changes(nowhere, *pair) == by_git[pair]


async def test_a_difference_is_not_derived_from_others_that_do_not_meet(repo, history):
    """BX-23."""
    for old, new in (history[:2], history[2:4]):
        await commits.path_changes(repo.git, old, new)
    assert repo.git.answers.difference(history[0], history[3]) is None
