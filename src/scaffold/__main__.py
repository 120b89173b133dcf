"""`python -m scaffold` is the command `scaffold`."""

from scaffold.cli.main import scaffold

if __name__ == "__main__":
    scaffold()
