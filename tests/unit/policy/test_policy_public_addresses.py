from scaffold.policy.rule.hosts import is_public


def test_internet_addresses_are_public():
    addresses = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
    assert [address for address in addresses if not is_public(address)] == []


def test_local_and_private_addresses_are_not_public():
    """RA-4."""
    addresses = [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "100.100.100.200", "168.63.129.16", "224.0.0.1", "240.0.0.1", "192.0.2.1", "198.18.0.1"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
        *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:7f00:1::", "localhost", "", "255.255.255.255"),
    ]
    assert [address for address in addresses if is_public(address)] == []
