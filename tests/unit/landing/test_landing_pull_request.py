"""Pull requests: which repository an address is of."""

from scaffold.landing.taking.github_pull_request import Hosted, hosted_at


def test_the_repository_is_read_from_its_address():
    """AL-14: `gh` is told it, and asks nothing."""
    addresses = [
        "https://github.com/ada/shop.git",
        "https://ada:secret@github.com/ada/shop/",
        "git@github.com:ada/shop.git",
        "ssh://git@github.com:22/ada/shop",
        "ssh://git@ssh.github.com:443/ada/shop.git",
    ]
    shop = Hosted(host="github.com", owner="ada", name="shop")
    assert [address for address in addresses if hosted_at(address) != shop] == []
    others = ["work:ada/shop", "/srv/ada/shop.git", "../ada/shop", "file:///srv/ada/shop"]
    assert [address for address in others if hosted_at(address)] == [], "`gh` finds out what an alias stands for"
