"""Tell public internet addresses from those of this machine and its local networks."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_AZURE_HOST = IPv4Address("168.63.129.16")
"""Serves metadata and credentials to Azure machines, although the address looks public."""
_NAT64 = IPv6Network("64:ff9b::/96")
"""The NAT64 prefix: the last four bytes are the IPv4 address that is really reached."""


def is_public(text: str) -> bool:
    """Return whether `text` is a public internet address; False for anything that is not an address.

    IPv4 addresses embedded in an IPv6 address must be public too.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return all(_is_global(each) for each in _embedded_addresses(address))


def _embedded_addresses(address: IPv4Address | IPv6Address) -> tuple[IPv4Address | IPv6Address, ...]:
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    # 6to4 and Teredo addresses lead through a gateway to the IPv4 address inside them.
    inner = (address.sixtofour, *(address.teredo or ()))
    return (address, *(each for each in inner if each))


def _is_global(address: IPv4Address | IPv6Address) -> bool:
    # Python counts some multicast and reserved addresses as global.
    return address.is_global and not address.is_multicast and not address.is_reserved and address != _AZURE_HOST
