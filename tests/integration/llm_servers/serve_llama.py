"""A process that serves a small local model: prints its base URL once it is ready, and ends with its stdin.

`python serve_llama.py GGUF`; the path of the `xllamacpp` wheel stands in PYTHONPATH.
"""

import sys

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
server = xllamacpp.Server(params)
print(f"{server.listening_address}/v1", flush=True)
sys.stdin.read()
