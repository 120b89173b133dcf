"""Start the observation, then run the sitecustomize that this one hides.

Every Python that a check starts loads this file, so it is written in the syntax of all of them.
"""

import os
import sys

_folder = os.environ.get("SCAFFOLD_OBSERVATION")
if _folder and sys.version_info >= (3, 6):
    try:
        import scaffold_observation  # type: ignore[import-not-found]

        scaffold_observation.start(_folder)
    except Exception:  # noqa: BLE001, S110 - without observation the program must run as it would
        pass

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _here]
sys.path_importer_cache.pop(_here, None)
_own = sys.modules.pop("sitecustomize")
try:
    # Not this one, because its folder has been removed from the path.
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ImportError as error:
    if getattr(error, "name", "sitecustomize") != "sitecustomize":
        raise
finally:
    # The import that is under way takes the module from here.
    sys.modules.setdefault("sitecustomize", _own)
