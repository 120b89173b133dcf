"""Vectors as bytes, which is how they are stored, and as arrays, which is how they are compared."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scaffold.core.errors import EmbeddingError

STORED = np.dtype("<f2")
"""Half-precision numbers, little-endian."""
Matrix: TypeAlias = NDArray[np.float32]


def packed(rows: Matrix | Sequence[Sequence[float]]) -> list[bytes]:
    """Return vectors as bytes, scaled to length 1; raise EmbeddingError for zero, infinite or NaN values."""
    matrix = np.asarray(rows, dtype=np.float32)  # in half precision, the length would be too inexact
    if matrix.ndim != 2:
        raise EmbeddingError("vectors of different dimensions were given", "Give vectors of one dimension.")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        raise EmbeddingError("a vector is zero, or has infinite or NaN values", "Give other numbers, or another text.")
    return [bytes(row.tobytes()) for row in (matrix / lengths).astype(STORED)]


def unpacked(vectors: Sequence[bytes]) -> Matrix:
    """Return stored vectors as the rows of a matrix."""
    if not vectors:
        return np.zeros((0, 0), dtype=np.float32)
    return np.frombuffer(b"".join(vectors), dtype=STORED).reshape(len(vectors), -1).astype(np.float32)
