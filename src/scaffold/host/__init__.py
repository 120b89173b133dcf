"""The machine: processes, files, locks, identity and time. The only package that starts processes."""
