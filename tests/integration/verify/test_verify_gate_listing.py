"""Gates are detected from a commit, whatever is in the work tree."""

from scaffold.git import refs
from scaffold.verify.gates.detection import detect_at_commit, detect_in_folder


async def test_gates_are_detected_from_the_commit(harness):
    """AL-9: gates are those of the judged commit, not of a work tree."""
    await harness.sh(
        "mkdir -p tests 'odd name'; printf '[tool.ruff]\\n' > pyproject.toml;"
        "printf 'def test_a(): pass\\n' > 'tests/test_a.py'; printf x > \"odd name/$(printf 'a\\nb').py\";"
        "ln -s /etc/passwd setup.cfg; head -c 2000000 /dev/zero > tox.ini;"
        "git add -A; git commit -qm tests; rm -r tests; printf '{}' > package.json"
    )
    head = await refs.resolve(harness.context.git, "HEAD")
    detection = await detect_at_commit(harness.context.git, head)
    assert (detection.kind, [gate.command for gate in detection.gates]) == (
        "python",
        ["python3 -m pytest -q", "ruff check ."],
    )
    around = detect_in_folder(harness.context.repository.root)
    assert (around.kind, [gate.command for gate in around.gates]) == ("node", ["ruff check ."])


async def test_a_commit_without_manifests_has_no_gates(harness):
    head = await refs.resolve(harness.context.git, "HEAD")
    assert (await detect_at_commit(harness.context.git, head)).gates == ()
