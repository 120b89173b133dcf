"""The flags that `run` and `resume` share, and what they change."""

from msgspec import Struct

from scaffold.config.schema import Setting
from scaffold.core.run_settings import SandboxMode


class RunFlags(Struct, frozen=True, kw_only=True):
    """What `run` and `resume` were called with; None where a flag was not given."""

    model: str | None = None
    agents: int | None = None
    budget_usd: float | None = None
    sandbox: SandboxMode | None = None
    yolo: bool = False
    as_json: bool = False
    tier: str | None = None
    plan_path: str | None = None
    yes: bool = False
    dry_run: bool = False
    trust_once: bool = False
    detach: bool = False


def setting_overrides(flags: RunFlags) -> dict[str, Setting]:
    """Return the settings that the flags outdo, by dotted name."""
    return {
        "model": flags.model,
        "tier": flags.tier,
        "agents": flags.agents,
        "budget_usd": flags.budget_usd,
        "sandbox.mode": flags.sandbox,
    }
