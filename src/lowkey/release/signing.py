"""Public room: who made a release: an Ed25519 signature over its manifest, in the format of minisign.

The manifest holds the hash of everything else, so its signature is one of the whole folder. ``minisign -Vm manifest.json``
checks it too. Keys are files of minisign's: the secret one without a password (as ``minisign -G -W`` makes it), mode 0600.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from pathlib import Path
from typing import Any, NoReturn

from lowkey.errors import InputError, refuse
from lowkey.release.folder import MANIFEST, SIGNATURE, broken, regular_file

ALGORITHM, HASHED, UNENCRYPTED, CHECKSUM = b"Ed", b"ED", b"\0\0", b"B2"
SECRET_BYTES, PUBLIC_BYTES, SIGNATURE_BYTES = 158, 42, 74
MAX_FILE = 4096


def new_keys(secret: Path, public: Path) -> str:
    """Write a pair of keys to new files; returns the public one as text."""
    number, key = os.urandom(8), _ed25519().Ed25519PrivateKey.generate()
    pair = key.private_bytes_raw() + key.public_key().public_bytes_raw()
    check = hashlib.blake2b(ALGORITHM + number + pair, digest_size=32).digest()
    text = _encoded(ALGORITHM + UNENCRYPTED + CHECKSUM + bytes(48) + number + pair + check)
    shown = _encoded(ALGORITHM + number + pair[32:])
    for path, comment, content, mode in (
        (secret, "secret key of a curator: keep it to yourself", text, 0o600),
        (public, "public key of a curator of lowkey releases", shown, 0o644),
    ):
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except OSError as error:
            refuse("a key", got=f"{path}: {error.strerror}", needed="a new file in an existing folder", try_="another name")
        with open(file, "w") as opened:
            opened.write(f"untrusted comment: {comment}\n{content}\n")
    return shown


class Signer:
    """A secret key that is read and checked, before anything is spent."""

    def __init__(self, path: Path) -> None:
        content = _decoded(_read(path, "a secret key"), "a secret key", SECRET_BYTES)
        self.number, pair = content[54:62], content[62:126]
        if content[2:4] != UNENCRYPTED:
            refuse("a secret key", got="one with a password", needed="one without", try_="lowkey keygen, or minisign -G -W")
        if hashlib.blake2b(ALGORITHM + self.number + pair, digest_size=32).digest() != content[126:]:
            _not("a secret key")
        self._key = _ed25519().Ed25519PrivateKey.from_private_bytes(pair[:32])

    def sign(self, folder: Path, comment: str) -> None:
        """Write the signature of a folder's manifest beside it."""
        signature = self._key.sign(_digest(folder / MANIFEST))
        over_all = self._key.sign(signature + comment.encode())
        text = _encoded(HASHED + self.number + signature)
        lines = ["untrusted comment: of a lowkey release", text, f"trusted comment: {comment}", _encoded(over_all)]
        (folder / SIGNATURE).write_text("\n".join(lines) + "\n", "utf-8")


def public_key(key: str | Path) -> str:
    """The text of a public key, which a file holds or which it is; refused if it is none."""
    text = _read(key, "a public key")
    _decoded(text, "a public key", PUBLIC_BYTES)
    return text


def check_signature(folder: Path, key: str | Path) -> str:
    """Refuse a folder whose manifest was not signed with this key: a file, or its text. Returns what was signed with it."""
    public = _decoded(public_key(key), "a public key", PUBLIC_BYTES)
    if not (folder / SIGNATURE).exists():
        broken("no signature", "one by the key that you gave", "asking the curator for the signed release")
    lines = _read(regular_file(folder, SIGNATURE), "a signature").splitlines()
    signed = _decoded(lines[1] if len(lines) == 4 else "", "a signature", SIGNATURE_BYTES)
    over_all = _decoded(lines[3] if len(lines) == 4 else "", "a signature", 64)
    comment = lines[2].removeprefix("trusted comment: ") if len(lines) == 4 else ""
    if not lines[2].startswith("trusted comment: "):
        _not("a signature")
    if signed[2:10] != public[2:10]:
        broken("a signature by another key", "one by the key that you gave")
    verifier = _ed25519().Ed25519PublicKey.from_public_bytes(public[10:])
    message = _digest(folder / MANIFEST) if signed[:2] == HASHED else (folder / MANIFEST).read_bytes()
    try:
        verifier.verify(signed[10:], message)
        verifier.verify(over_all, signed[10:] + comment.encode())
    except _invalid():
        broken("a signature that is not of this folder", "one by the key that you gave, over these very bytes")
    return comment


def _digest(manifest: Path) -> bytes:
    return hashlib.blake2b(manifest.read_bytes()).digest()


def _read(key: str | Path, what: str) -> str:
    """The text of a small file, or the text itself where there is no such file."""
    try:
        path = Path(key)
        return path.read_bytes()[:MAX_FILE].decode("ascii") if path.is_file() else str(key)
    except (OSError, ValueError):
        _not(what)


def _decoded(text: str, what: str, size: int) -> bytes:
    lines = [line for line in text.splitlines() if line and not line.startswith("untrusted comment:")]
    try:
        content = base64.b64decode(lines[0] if lines else "", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    if (
        not lines
        or _encoded(content) != lines[0]
        or len(content) != size
        or (size != 64 and content[:2] not in (ALGORITHM, HASHED))
    ):
        _not(what)
    return content


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _not(what: str) -> NoReturn:
    raise InputError(
        what=what, got="something else", needed="as `lowkey keygen` or minisign writes it", try_="another file"
    )


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        refuse("signatures", got="no cryptography", needed="the package", try_="pip install 'lowkey[sign]'")
    return ed25519


def _invalid() -> Any:
    from cryptography.exceptions import InvalidSignature

    return InvalidSignature
