"""Optional extras of the distribution: what a command needs beyond the installed libraries."""

from importlib.util import find_spec

from scaffold.core.errors import UsageError


def require_extra(module: str, extra: str) -> None:
    """Raise UsageError if the module of an extra is not installed; imports nothing."""
    if find_spec(module) is None:
        what = f"the extra `{extra}` is not installed"
        raise UsageError(what, f"Install it: `pip install 'ralph-scaffold[{extra}]'`.")
