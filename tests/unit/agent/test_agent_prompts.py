import pytest

from scaffold.agent.prompts import BUILT_IN, system_prompt

REVIEWS = ("code_review", "architecture_review", "design_review", "pm_review")


def test_each_built_in_role_has_a_prompt_of_its_own_on_the_same_ground():
    """SC-6."""
    assert {"implementation", "testing", *REVIEWS} == BUILT_IN
    prompts = {role: system_prompt(role) for role in BUILT_IN}
    assert len(set(prompts.values())) == len(BUILT_IN)
    for role, prompt in prompts.items():
        assert prompt.startswith("You are a software engineer at work in your own git worktree."), role
        assert "{role}" not in prompt


@pytest.mark.parametrize("role", ["release_notes", "../ground", "ground", "verdict", "a/b", ""])
def test_a_role_nobody_knows_gets_the_generic_prompt_with_its_name(role):
    """SC-6."""
    assert f"Your role: {role}. Do the task as an expert" in system_prompt(role)


@pytest.mark.parametrize("role", [*REVIEWS, "security_review"])
def test_a_review_is_told_to_end_with_a_verdict(role):
    assert system_prompt(role).endswith('`verdict` is "approve" or "reject".')


def test_work_is_told_of_its_bounds_and_not_of_verdicts():
    """AL-32."""
    prompt = system_prompt("implementation")
    assert "you name in your final message and leave as it is" in prompt
    assert "verdict" not in prompt
