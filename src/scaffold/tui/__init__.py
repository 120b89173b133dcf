"""The full-screen face. Empty until it is built (AL-25)."""
