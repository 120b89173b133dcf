"""Git through its command line, for the user's repository and for our worktrees of it.

Owns how git is started (hooks and configured programs turned off), commits, refs, worktrees, submodules, merges in
memory, and what can be read from a git directory without starting git. Takes folders, commits and paths; returns
values of `scaffold.core` and its own, or raises GitError with what to do. Never writes the user's checkout.

Start with `client/command_line.py` (`Git`), then `commits.py` and `checkouts/worktree.py`.
"""
