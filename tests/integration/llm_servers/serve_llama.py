"""A process that serves a small local model: prints its base URL once it is ready, and ends with its stdin.

`python serve_llama.py GGUF [TEMPLATE]`; the path of the `xllamacpp` wheel stands in PYTHONPATH. With a chat template in
place of the model's own the window is small: prompts are rendered, and most are then refused as too long.
"""

import sys
from pathlib import Path

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 4096
params.n_parallel = 2
params.warmup = False
params.sampling.temp = 0.0  # the same answers each time
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
if sys.argv[2:]:
    params.chat_template = Path(sys.argv[2]).read_text()
    params.use_jinja = True
    params.n_ctx, params.n_parallel = 512, 1
server = xllamacpp.Server(params)
print(f"{server.listening_address}/v1", flush=True)
sys.stdin.read()
