"""What mkdocs cannot be told in mkdocs.yml: the design decisions are a folder, to which any change may add one."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

DECISIONS = Path(__file__).parent / "design"


def on_config(config: MkDocsConfig) -> None:
    """Add the design decisions to the end of the navigation, in their order."""
    pages = ["design/README.md", *(f"design/{path.name}" for path in sorted(DECISIONS.glob("[0-9]*.md")))]
    config.nav = [*(config.nav or []), {"Design decisions": pages}]
