"""Where the commands `scaffold` and `ralph` start, and `python -m scaffold`, which is `scaffold`."""

from scaffold.host.startup import importing

with importing():
    from scaffold.cli.main import ralph, scaffold

__all__ = ["ralph", "scaffold"]

if __name__ == "__main__":
    scaffold()
