"""Which addresses of the network belong to everybody, and which to this machine and its neighbourhood."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_AZURE_HOST = IPv4Address("168.63.129.16")
"""Serves metadata and credentials to the machines of that cloud, though its number looks public."""
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""Where IPv4 is reached from networks without it: only the IPv4 address in the last four bytes counts."""


def is_public(text: str) -> bool:
    """Tell whether `text` is an address on the open internet, not one that only this machine or its network knows.

    An IPv6 address that carries IPv4 addresses is judged by these too. Other words are no address and not public.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return all(_open(each) for each in _carried(address))


def _carried(address: IPv4Address | IPv6Address) -> tuple[IPv4Address | IPv6Address, ...]:
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped:
        return (address.ipv4_mapped,)
    if address in _TRANSLATED:
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    inner = (address.sixtofour, *(address.teredo or ()))
    return (address, *(each for each in inner if each))


def _open(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not address.is_multicast and not address.is_reserved and address != _AZURE_HOST
