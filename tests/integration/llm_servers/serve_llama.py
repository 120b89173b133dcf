"""A process that serves a small local model: prints its base URL once it is ready, and ends with its stdin.

`python serve_llama.py GGUF [WINDOW [TEMPLATE]]`; the path of the `xllamacpp` wheel stands in PYTHONPATH. With a WINDOW
there is one slot; TEMPLATE is the file of a chat template in place of the model's own.
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
if window := sys.argv[2:3]:
    params.n_ctx, params.n_parallel = int(window[0]), 1
if template := sys.argv[3:4]:
    params.chat_template, params.use_jinja = Path(template[0]).read_text(), True
params.warmup = False
params.sampling.temp = 0.0  # the same answers each time
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(f"{server.listening_address}/v1", flush=True)
sys.stdin.read()
