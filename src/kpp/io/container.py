r"""The bytes of a file: a prefix, a header, and parts one after the other.

::

    8 bytes   magic, 89 4B 50 50 0D 0A 1A 0A
    4 bytes   format version, unsigned
    8 bytes   length of the header, unsigned
    32 bytes  SHA-256 of the 20 bytes above and the header
    header    JSON: for every part its type, shape, order, stored bytes and SHA-256
    parts     in the header's order, without gaps; nothing after the last

All numbers are little-endian. Part 0 is the document, a JSON text; the others are arrays. A part
is stored as it is or by zlib. The header says how long every part is before and after, so the sizes
are added up and compared with the file's own size and with the limits before anything is
allocated, and no more than the announced bytes is ever inflated. Parts have no names and no
offsets: there is nothing that could point outside the file, or twice to one place.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
import struct
import zlib
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, BinaryIO

import numpy as np

from kpp._typing import AnyArray
from kpp.io.errors import FileFormatError
from kpp.io.strict_json import dump_json, load_json

# As in PNG: a byte above 127 and both kinds of line ends, so that a transfer as text damages the
# first bytes and is noticed at once.
MAGIC = b"\x89KPP\r\n\x1a\n"
PREFIX = struct.Struct("<8sIQ")
DIGEST_SIZE = 32
DOCUMENT = "json"
READABLE_VERSIONS = (1, 2)
# No objects, no strings, no complex or half numbers; bool is stored as bytes 0 and 1.
ARRAY_TYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
ENTRY_KEYS = {"type", "shape", "order", "stored", "zlib", "sha256"}

# Limits of what a header may announce; what is beyond is refused before it is read.
MAX_HEADER = 1 << 22
MAX_DOCUMENT = 1 << 26
MAX_DIMENSIONS = 3
MAX_SIDE = 2**31 - 1
# How much a file may grow when it is read: this many times its size, and this much anyway.
MAX_RATIO, FREE_BYTES = 100, 1 << 24
# The same for the values of JSON, which take more room than their text.
VALUES_PER_BYTE, FREE_VALUES = 4, 500_000
DEFAULT_MAX_BYTES = 1 << 32
ADVICE = "Save the model anew, or get another copy of the file."


@dataclass(frozen=True)
class Entry:
    """What the header says of one part.

    Parameters
    ----------
    type : str
        One of `ARRAY_TYPES`, or "json".
    shape : tuple of int
        Shape of the array; for "json" the number of bytes.
    order : {"C", "F"}
        Memory order.
    stored : int
        Bytes in the file.
    compressed : bool
        Whether these are zlib's.
    digest : bytes
        Their SHA-256.
    """

    type: str
    shape: tuple[int, ...]
    order: str
    stored: int
    compressed: bool
    digest: bytes

    @property
    def n_bytes(self) -> int:
        """Bytes when it is read."""
        item = 1 if self.type == DOCUMENT else np.dtype(self.type).itemsize
        return math.prod(self.shape) * item


def pack(version: int, document: bytes, arrays: list[AnyArray], compression: int) -> list[bytes]:
    """Lay out a file.

    Parameters
    ----------
    version : int
        Format version.
    document : bytes
        The JSON text.
    arrays : list of arrays
        Of `ARRAY_TYPES`, at most `MAX_DIMENSIONS` dimensions.
    compression : int
        zlib's level, 0 to 9.

    Returns
    -------
    chunks : list of bytes
        To be written one after the other.
    """
    raw = [document]
    shapes: list[tuple[str, tuple[int, ...], str]] = [(DOCUMENT, (len(document),), "C")]
    for array in arrays:
        # The memory order is kept, since sums may be rounded differently in another.
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        little = array.astype(array.dtype.newbyteorder("<"), order="K", copy=False)
        shapes.append((little.dtype.str, array.shape, order))
        raw.append(little.tobytes(order=order))  # type: ignore[arg-type]
    small = [zlib.compress(part, compression) if compression else part for part in raw]
    use = [len(a) < len(b) for a, b in zip(small, raw, strict=True)]
    # What shrinks beyond what a reader accepts is stored as it is, the largest first.
    total = sum(map(len, raw))
    for k in sorted(range(len(raw)), key=lambda k: -len(raw[k])):
        stored = sum(len(a) if u else len(b) for a, b, u in zip(small, raw, use, strict=True))
        if total <= most_bytes(stored):
            break
        use[k] = False
    chunks = [a if u else b for a, b, u in zip(small, raw, use, strict=True)]
    entries = [
        {
            "type": kind,
            "shape": list(shape),
            "order": order,
            "stored": len(chunk),
            "zlib": compressed,
            "sha256": hashlib.sha256(chunk).hexdigest(),
        }
        for (kind, shape, order), chunk, compressed in zip(shapes, chunks, use, strict=True)
    ]
    return [seal(version, dump_json({"parts": entries})), *chunks]


def seal(version: int, header: bytes) -> bytes:
    """Put the prefix and its checksum before a header."""
    prefix = PREFIX.pack(MAGIC, version, len(header))
    return prefix + hashlib.sha256(prefix + header).digest() + header


def most_bytes(size: int) -> int:
    """Most bytes that the content of a file of this many bytes may take when it is read."""
    return max(FREE_BYTES, MAX_RATIO * size)


def most_values(size: int) -> int:
    """Most JSON values that a file of this many bytes may hold."""
    return max(FREE_VALUES, VALUES_PER_BYTE * size)


class Container:
    """An open file whose header has been read and checked; parts are read one by one.

    Parameters
    ----------
    file : binary file
        At its beginning.
    max_bytes : int
        Most bytes that the parts may take when they are read.
    """

    def __init__(self, file: BinaryIO, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        status = os.fstat(file.fileno())
        # A pipe or a device has no size to compare with, and may never end.
        if not stat.S_ISREG(status.st_mode):
            raise FileFormatError("Only a regular file is read.")
        self._file = file
        self.size = status.st_size
        self.n_bytes_taken = 0  # those that were read, and whose checksums were right
        self.version, header = self._read_header()
        self._most_values = most_values(self.size)
        self.entries = _read_entries(load_json(header, self._most_values))
        self._start = file.tell()
        self._offsets = list(accumulate((e.stored for e in self.entries), initial=self._start))
        self._check_sizes(max_bytes)
        # For what takes more room than its JSON: arrays of texts, all as long as the longest.
        self.text_bytes = min(max_bytes, most_bytes(self.size))

    def _read_header(self) -> tuple[int, bytes]:
        prefix = self._file.read(PREFIX.size)
        if prefix[: len(MAGIC)] != MAGIC:
            raise FileFormatError(
                "This is not a file of kpp.save: it does not begin like one. Pickles and other "
                "formats are not read; a file that was sent as text may have lost its line ends."
            )
        if len(prefix) < PREFIX.size:
            raise FileFormatError(f"The file ends within its first bytes. {ADVICE}")
        _, version, length = PREFIX.unpack(prefix)
        if version not in READABLE_VERSIONS:
            newer = version > max(READABLE_VERSIONS)
            raise FileFormatError(
                f"The file has format version {version}; this kpp reads "
                f"{' and '.join(map(str, READABLE_VERSIONS))}. "
                + ("It was written by a newer kpp: upgrade kpp to read it." if newer else ADVICE)
            )
        if length > min(MAX_HEADER, self.size - PREFIX.size - DIGEST_SIZE):
            raise FileFormatError(
                f"The header is announced as {length} bytes, and the file has {self.size}; at "
                f"most {MAX_HEADER} are read. {ADVICE}"
            )
        digest = self._file.read(DIGEST_SIZE)
        header = self._file.read(length)
        if hashlib.sha256(prefix + header).digest() != digest:
            raise FileFormatError(f"The header does not match its checksum. {ADVICE}")
        self.n_bytes_taken += PREFIX.size + DIGEST_SIZE + length
        return version, header

    def _check_sizes(self, max_bytes: int) -> None:
        if self._offsets[-1] != self.size:
            raise FileFormatError(
                f"The header announces a file of {self._offsets[-1]} bytes, and it has "
                f"{self.size}. {ADVICE}"
            )
        total = sum(entry.n_bytes for entry in self.entries)
        if total > most_bytes(self.size):
            raise FileFormatError(
                f"A file of {self.size} bytes announces {total} when it is read, more than "
                f"{MAX_RATIO} times as many: no saved model does."
            )
        if total > max_bytes:
            raise FileFormatError(
                f"The model takes {total} bytes, and max_bytes is {max_bytes}. Give a larger "
                "max_bytes if you trust where the file comes from."
            )
        if self.entries[0].n_bytes > MAX_DOCUMENT:
            raise FileFormatError(
                f"The document is announced as {self.entries[0].n_bytes} bytes; at most "
                f"{MAX_DOCUMENT} are read."
            )

    def document(self) -> Any:
        """Read part 0."""
        return load_json(self._read(0), self._most_values)

    def array(self, number: int) -> AnyArray:
        """Read an array, in the machine's byte order."""
        entry = self.entries[number]
        # A bytearray makes the array writable, as it was before it was saved.
        flat = np.frombuffer(bytearray(self._read(number)), dtype=np.dtype(entry.type))
        if entry.type == "|b1" and flat.size and flat.view(np.uint8).max() > 1:
            raise FileFormatError(f"Part {number} holds booleans that are neither 0 nor 1.")
        flat = flat.astype(flat.dtype.newbyteorder("="), copy=False)
        return flat.reshape(entry.shape, order=entry.order)  # type: ignore[call-overload]

    def _read(self, number: int) -> bytes:
        entry = self.entries[number]
        self._file.seek(self._offsets[number])
        data = self._file.read(entry.stored)
        if hashlib.sha256(data).digest() != entry.digest:
            raise FileFormatError(f"Part {number} does not match its checksum. {ADVICE}")
        self.n_bytes_taken += entry.stored
        return _inflate(data, entry.n_bytes) if entry.compressed else data


def _inflate(data: bytes, n_bytes: int) -> bytes:
    """Decompress to exactly the announced size; one byte more is an error, not an allocation."""
    inflater = zlib.decompressobj()
    try:
        # One byte more than announced is enough to see that a part lies about its size.
        raw = inflater.decompress(data, n_bytes + 1)
    except zlib.error as error:
        raise FileFormatError(f"A part cannot be decompressed: {error}") from error
    if len(raw) != n_bytes or not inflater.eof or inflater.unused_data:
        raise FileFormatError("A part does not decompress to the size that is announced.")
    return raw


def _read_entries(content: Any) -> list[Entry]:
    if not isinstance(content, dict) or content.keys() != {"parts"}:
        raise FileFormatError("The header must hold the parts, and nothing else.")
    parts = content["parts"]
    if not isinstance(parts, list) or not parts:
        raise FileFormatError("The header must list at least one part.")
    entries = [_read_entry(k, part) for k, part in enumerate(parts)]
    if [entry.type == DOCUMENT for entry in entries] != [k == 0 for k in range(len(entries))]:
        raise FileFormatError("Part 0, and no other, must be the JSON document.")
    return entries


def _read_entry(number: int, part: Any) -> Entry:
    def require(condition: bool, what: str) -> None:
        if not condition:
            raise FileFormatError(f"Part {number}: {what}.")

    require(isinstance(part, dict) and part.keys() == ENTRY_KEYS, "the header's keys are others")
    kind, shape, order = part["type"], part["shape"], part["order"]
    stored, digest = part["stored"], part["sha256"]
    require(kind == DOCUMENT or kind in ARRAY_TYPES, "a type that is not read")
    require(isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS, "not a shape")
    require(all(type(side) is int and 0 <= side <= MAX_SIDE for side in shape), "not a shape")
    require(kind != DOCUMENT or len(shape) == 1, "a document has one length")
    require(order in ("C", "F"), "the order must be C or F")
    require(type(stored) is int and 0 <= stored < 1 << 62, "not a size")
    require(type(part["zlib"]) is bool, "zlib must be true or false")
    require(isinstance(digest, str) and len(digest) == 2 * DIGEST_SIZE, "not a checksum")
    try:
        parsed = bytes.fromhex(digest)
    except ValueError:
        parsed = b""
    require(len(parsed) == DIGEST_SIZE and parsed.hex() == digest, "not a checksum")
    entry = Entry(kind, tuple(shape), order, stored, part["zlib"], parsed)
    # An array without entries has a shape, too, which must not overflow.
    require(math.prod(max(side, 1) for side in shape) < 1 << 48, "a shape that is too large")
    require(entry.compressed or entry.stored == entry.n_bytes, "stored size and shape differ")
    return entry
