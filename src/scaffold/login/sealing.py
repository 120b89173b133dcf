"""Encrypt the tokens of a login with AES-256-GCM, bound to their account."""

import os

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from scaffold.login.tokens import Tokens

KEY_BYTES = 32
NONCE_BYTES = 12
VERSION = b"scaffold login 1"


class SealBroken(ValueError):
    """The tokens cannot be decrypted: another key, another account, or damage."""


def seal(tokens: Tokens, key: bytes, provider: str) -> bytes:
    """Return a new random nonce and the encrypted tokens; only the same key, provider and account open them."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, msgspec.json.encode(tokens), _bound(provider, tokens.account))


def unseal(sealed: bytes, key: bytes, provider: str, account: str) -> Tokens:
    """Return the tokens; SealBroken if they were encrypted with another key, for another account, or are damaged."""
    try:
        plain = AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _bound(provider, account))
        return msgspec.json.decode(plain, type=Tokens)
    except (InvalidTag, ValueError, msgspec.MsgspecError) as error:
        raise SealBroken(provider) from error


def _bound(provider: str, account: str) -> bytes:
    return b"\0".join((VERSION, provider.encode(), account.encode()))
