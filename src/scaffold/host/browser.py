"""Open a page in the user's web browser, if there is one that can be seen."""

import sys
import threading
import webbrowser
from collections.abc import Mapping
from pathlib import Path


def open_in_browser(address: Path | str, environ: Mapping[str, str]) -> bool:
    """Open a file or a URL in the browser.

    Return False, and do nothing, without a graphical session or a configured browser.
    """
    if not _has_browser(environ):
        return False
    try:
        return webbrowser.open(address.as_uri() if isinstance(address, Path) else address)
    except webbrowser.Error:
        return False


def open_in_background(url: str, environ: Mapping[str, str]) -> bool:
    """Open a URL as `open_in_browser` does, without waiting for the browser; return whether there is one."""
    if not _has_browser(environ):
        return False
    # Some browsers go on until they are closed.
    threading.Thread(target=open_in_browser, args=(url, environ), daemon=True).start()
    return True


def _has_browser(environ: Mapping[str, str]) -> bool:
    # Without a display, one for terminals could take over the user's.
    return sys.platform == "darwin" or any(environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
