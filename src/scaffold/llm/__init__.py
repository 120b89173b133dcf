"""Language models behind one port, `core.ports.Model`.

A request enters as provider-independent messages and leaves as deltas and one reply with its usage and cost. Start with
`model_factory.py`, which assembles a model from its name: `registry/` knows the models, `wire/` encodes and reads each
provider's format without I/O, `transport/` sends, retries and throttles, and a cassette replays scripted replies.
Errors are `ModelError`s that say what to do next; keys never appear in them.
"""
