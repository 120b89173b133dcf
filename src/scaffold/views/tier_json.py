"""The JSON of a run's tier, its number of agents, and its models: what was chosen, and why."""

from typing import Any

from scaffold.core.model import Run


def tier_json(run: Run) -> dict[str, Any]:
    """Return the keys that stand beside `tier` in the JSON of a run."""
    settings = run.settings
    return {
        "tier_confidence": settings.choice.confidence,
        "tier_reason": settings.choice.reason or None,
        "questions": settings.tier.questions,
        "agents": run.agents,
        "agents_reason": run.advice if run.advice and not settings.choice.fixed_agents else None,
        "models": {
            "model": settings.model.name,
            **{role: each.name for role, each in settings.assigned.by_role.items()},
            **{kind: each.name for kind, each in settings.assigned.by_task.items()},
        },
    }
