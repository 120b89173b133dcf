"""Gates are told from a commit, whatever lies in the work tree."""

from scaffold.git import refs
from scaffold.verify.gates.detection import detect_at_commit, detect_in_folder


async def test_a_commit_tells_its_gates_whatever_lies_around(harness):
    """AL-9: gates are those of the commit that is judged, not of somebody's work tree."""
    await harness.sh(
        "mkdir -p tests 'odd name'; printf '[tool.ruff]\\n' > pyproject.toml;"
        "printf 'def test_a(): pass\\n' > 'tests/test_a.py'; printf x > \"odd name/$(printf 'a\\nb').py\";"
        "ln -s /etc/passwd setup.cfg; head -c 2000000 /dev/zero > tox.ini;"
        "git add -A; git commit -qm tests; rm -r tests; printf '{}' > package.json"
    )
    head = await refs.resolve(harness.site.git, "HEAD")
    detection = await detect_at_commit(harness.site.git, head)
    assert (detection.kind, [gate.command for gate in detection.gates]) == (
        "python",
        ["python -m pytest -q", "ruff check ."],
    )
    around = detect_in_folder(harness.site.repository.root)
    assert (around.kind, [gate.command for gate in around.gates]) == ("node", ["ruff check ."])


async def test_a_commit_without_anything_to_tell_has_no_gates(harness):
    head = await refs.resolve(harness.site.git, "HEAD")
    assert (await detect_at_commit(harness.site.git, head)).gates == ()
