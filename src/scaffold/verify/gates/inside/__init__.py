"""What runs inside the test runners of others, on their interpreter: 3.8 or newer, the standard library, no `scaffold`.

This folder is put on PYTHONPATH for one run; whatever stands here is found by its file's name alone.
"""
