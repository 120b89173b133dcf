"""Pull requests: which repository an address is of."""

import pytest

from scaffold.landing.taking.pull_request import Hosted, hosted_at


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/ada/shop.git",
        "https://ada:secret@github.com/ada/shop/",
        "git@github.com:ada/shop.git",
        "ssh://git@github.com:22/ada/shop",
        "ssh://git@ssh.github.com:443/ada/shop.git",
    ],
)
def test_the_repository_is_read_from_its_address(address):
    """AL-14: `gh` is told it, and asks nothing."""
    assert hosted_at(address) == Hosted(host="github.com", owner="ada", name="shop")


@pytest.mark.parametrize("address", ["work:ada/shop", "/srv/ada/shop.git", "../ada/shop", "file:///srv/ada/shop"])
def test_a_path_and_an_ssh_alias_do_not_tell_it(address):
    """AL-14: `gh` finds out itself what an alias stands for."""
    assert hosted_at(address) is None
