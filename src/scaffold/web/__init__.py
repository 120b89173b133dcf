"""The browser's face. Empty until it is built."""
