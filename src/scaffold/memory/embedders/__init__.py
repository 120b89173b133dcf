"""Models that turn text into vectors, here or on a server, and the bytes of a vector. Needs the extra `memory`."""
