"""The prompts of each role, built in or from a folder."""

import os

import pytest
from inline_snapshot import snapshot

from scaffold.agent.prompts import BUILT_IN_ROLES, MAX_BYTES, NON_WORKER_ROLES, system_prompt, worker_prompt

REVIEWS = ("code_review", "architecture_review", "design_review", "pm_review")
GROUND = "You are a software engineer working in your own git worktree."
VERDICT = '`verdict` is "approve" or "reject".'


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "prompts"
    made.mkdir()
    return made


def prompt(role, *folders):
    """Return the prompt of a role and the notices about files that cannot be used."""
    notices = []
    return system_prompt(role, folders=[str(folder) for folder in folders], notice=notices.append), notices


def test_each_built_in_role_has_its_own_prompt_on_a_common_base():
    """SC-6."""
    assert {"implementation", "testing", *REVIEWS} == BUILT_IN_ROLES
    prompts = {role: system_prompt(role) for role in BUILT_IN_ROLES}
    assert len(set(prompts.values())) == len(BUILT_IN_ROLES)
    for role, result in prompts.items():
        assert result.startswith(GROUND), role
        assert "{role}" not in result


def test_an_unknown_role_gets_the_generic_prompt_with_its_name():
    """SC-6."""
    roles = ["release_notes", "../ground", "ground", "verdict", "a/b", ""]
    assert [role for role in roles if f"Your role: {role}. Do" not in system_prompt(role)] == []


def test_a_role_name_is_shortened_to_one_line():
    """SC-6: a plan's author cannot write a prompt by the name of a role."""
    assert "Your role: a Obey. Do the task" in system_prompt("a\nObey")
    assert f"Your role: {'x' * 100}.... Do the task" in system_prompt("x" * 300)


def test_a_review_prompt_asks_for_a_verdict_at_the_end():
    """SC-7."""
    roles = [*REVIEWS, "security_review", "reviewer"]
    assert [role for role in roles if not system_prompt(role).endswith(VERDICT)] == []


def test_a_work_prompt_states_its_limits_and_does_not_mention_verdicts():
    """AL-32."""
    text = system_prompt("implementation")
    assert [line for line in text.splitlines() if "file_item" in line] == snapshot(
        ["  will not hold up - as an item with `file_item`, or report it in your final message, and do not change it."]
    )
    assert "verdict" not in text


def test_a_folders_prompt_replaces_only_the_role_specific_part(folder):
    """SC-6: neither the rules of all workers nor the form of a verdict."""
    (folder / "code_review.md").write_text("\ufeffBe kind, {role}.\r\n\r\nAlways.\n")
    text, notices = prompt("code_review", folder)
    assert text.startswith(GROUND)
    assert "\n\nBe kind, code_review.\n\nAlways.\n\n" in text
    assert text.endswith(VERDICT)
    assert "Your role: code review." not in text
    assert notices == []


def test_the_first_folder_with_a_prompt_wins(folder, tmp_path):
    """SC-6."""
    (folder / "dba.md").write_text("Mind the indexes.")
    (tmp_path / "dba.md").write_text("Mind the backups.")
    (tmp_path / "testing.md").write_text("Test well.")
    assert "Mind the indexes." in prompt("dba", folder, tmp_path)[0]
    assert "Test well." in prompt("testing", folder, tmp_path)[0]
    assert "Mind the backups." in prompt("dba", tmp_path / "missing", tmp_path)[0]


def test_an_unusable_prompt_file_raises_a_notice_and_the_next_one_is_used(folder):
    """SC-6: a notice, then the built-in prompt."""
    said = []
    for content in (b"x" * (MAX_BYTES + 1), b"caf\xe9", b" \n"):
        (folder / "testing.md").write_bytes(content)
        text, notices = prompt("testing", folder)
        assert text == system_prompt("testing")
        said += [each.replace(str(folder), "PROMPTS") for each in notices]
    assert said == snapshot(
        [
            "The prompt PROMPTS/testing.md is not used: the file is larger than 65536 bytes.",
            "The prompt PROMPTS/testing.md is not used: it is not UTF-8.",
            "The prompt PROMPTS/testing.md is not used: it is empty.",
        ]
    )
    (folder / "testing.md").write_bytes(b"x" * MAX_BYTES)
    assert prompt("testing", folder)[1] == []


@pytest.mark.parametrize("odd", ["folder", "pipe", "link out", "loop", "link to nothing"])
def test_only_regular_files_inside_the_folder_are_read(folder, tmp_path, odd):
    """SC-6: nothing hangs, and no other files are shown to a model."""
    place = folder / "testing.md"
    (tmp_path / "secret").write_text("the secret")
    match odd:
        case "folder":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)
        case "link out":
            place.symlink_to(tmp_path / "secret")
        case "loop":
            place.symlink_to(place)
        case "link to nothing":
            place.symlink_to(folder / "nothing")
    text, notices = prompt("testing", folder)
    assert text == system_prompt("testing")
    assert len(notices) == (0 if odd == "link to nothing" else 1)


def test_a_role_name_cannot_lead_out_of_the_folder(folder):
    """SC-6: a role whose name cannot be a file name gets a built-in prompt, without a notice."""
    roles = ["../secret", "", ".hidden", "a/b", "x" * 300, "ü" * 51, "a\0b", "a\nb", "caf\udce9"]
    (folder.parent / "secret.md").write_text("the secret")
    (folder / ".hidden.md").write_text("the secret")
    found = {role: prompt(role, folder) for role in roles}
    assert {role for role, (text, _) in found.items() if "the secret" in text or "Your role: " not in text} == set()
    assert [notices for _, notices in found.values()] == [[]] * len(roles)


def test_planners_do_not_get_the_rules_of_workers_and_can_be_overridden(folder):
    """SC-6: planner and supervisor are overridden the same way; an action of that role is a worker like any other."""
    assert len(NON_WORKER_ROLES) > 1
    for role in NON_WORKER_ROLES:
        assert GROUND not in system_prompt(role)
        (folder / f"{role}.md").write_text("Lead well.")
        assert prompt(role, folder)[0] == "Lead well."
        assert worker_prompt(role, reviews=False).startswith(GROUND)
