"""Open a file in the user's web browser, if there is one that can be seen."""

import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path


def open_in_browser(file: Path, environ: Mapping[str, str]) -> bool:
    """Open `file` in the browser; return False, and do nothing, without a graphical session or a configured browser."""
    if not (sys.platform == "darwin" or any(environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))):
        # Otherwise a browser for terminals could take over the user's.
        return False
    try:
        return webbrowser.open(file.as_uri())
    except webbrowser.Error:
        return False
