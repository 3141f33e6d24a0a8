"""The body of the native protocol's directory: cores, partitions, and interfaces."""

import enum
import ipaddress
import struct
from dataclasses import dataclass, field

DIRECTORY = struct.Struct("<QIHHIIHHIIHH")
CORE_ENTRY = struct.Struct("<HH")
PARTITION_ENTRY = struct.Struct("<HBB")
PLACE_ENTRY = struct.Struct("<HH")
ADDRESS_ENTRY = struct.Struct("<HBB16s")
ADDRESS_NUMBERS = ADDRESS_ENTRY.size // 4


class Access(enum.IntEnum):
    """Access of cores to a partition."""

    EREW = 0
    CREW = 1
    CRCW = 2


class Malformed(Exception):
    """A datagram that says nothing, with the reason."""


def require(condition, reason):
    """Raises Malformed unless the condition holds."""
    if not condition:
        raise Malformed(reason)


def padded(data):
    """The bytes and zeros up to a multiple of 8."""
    return data + bytes(-len(data) % 8)


@dataclass
class Directory:
    """Properties of the whole server, and a page of its cores and partitions, or of its interfaces.

    `cores` are (port, node), `owners` are (owner, access), `places` of cores are (port, interface), `ips` are
    (interface, address); `first` says where the page begins."""

    hash_seed: int
    partitions: int
    core_count: int
    stream_port: int
    payload_bytes_max: int
    value_bytes_max: int
    ids_window: int
    cookie_s: int
    first: int = 0
    addresses: int = 0
    cores: list = field(default_factory=list)
    owners: list = field(default_factory=list)
    places: list = field(default_factory=list)
    ips: list = field(default_factory=list)

    @property
    def entry_count(self):
        """The number of entries of cores and partitions."""
        return self.core_count + self.partitions

    @property
    def all_count(self):
        """The number of all entries."""
        beyond = self.core_count + ADDRESS_NUMBERS * self.addresses if self.addresses else 0
        return self.entry_count + beyond

    def listed(self):
        """The number of entries in this page."""
        return len(self.cores + self.owners) + self.beyond()

    def beyond(self):
        """The number of entries of interfaces in this page."""
        return len(self.places) + ADDRESS_NUMBERS * len(self.ips)

    def pack(self):
        fixed = DIRECTORY.pack(
            self.hash_seed, self.partitions, self.core_count, self.stream_port, self.payload_bytes_max,
            self.value_bytes_max, self.ids_window, self.cookie_s, self.first, self.listed(), self.addresses,
            0,
        )  # fmt: skip
        entries = [CORE_ENTRY.pack(*core) for core in self.cores]
        entries += [PARTITION_ENTRY.pack(*owner, 0) for owner in self.owners]
        entries += [PLACE_ENTRY.pack(*place) for place in self.places]
        entries += [ADDRESS_ENTRY.pack(number, ip.version, 0, ip.packed) for number, ip in self.ips]
        return padded(fixed + b"".join(entries))

    @classmethod
    def parse(cls, body):
        require(len(body) >= DIRECTORY.size, "shorter than a directory")
        *fields, first, listed, addresses, _ = DIRECTORY.unpack_from(body)
        directory = cls(*fields, first, addresses)
        count = directory.partitions
        require(0 < count <= 1024 and count & (count - 1) == 0, f"{count} partitions")
        require(directory.core_count > 0 and directory.ids_window > 0, "no cores, or no ids")
        require(1232 <= directory.payload_bytes_max <= 65507, "payload_bytes_max")
        end = directory.entry_count if first < directory.entry_count else directory.all_count
        require(addresses <= 64 and first + listed <= end, "more entries than there are")
        require(DIRECTORY.size + 4 * listed <= len(body), "entries cut off")
        number = first
        while number < first + listed:
            number += directory.parse_entry(number, body[DIRECTORY.size + 4 * (number - first) :])
        return directory

    def parse_entry(self, number, data):
        """Adds the entry of a number; returns how many numbers it takes."""
        if number < self.core_count:
            self.cores.append(CORE_ENTRY.unpack_from(data))
            require(self.cores[-1][0], "a core without a port")
        elif number < self.entry_count:
            owner, access, _ = PARTITION_ENTRY.unpack_from(data)
            require(owner < self.core_count and access in list(Access), "an owner or access that is none")
            self.owners.append((owner, Access(access)))
        elif number < self.entry_count + self.core_count:
            self.places.append(PLACE_ENTRY.unpack_from(data))
            require(self.places[-1][0], "a core without a port")
        else:
            require(len(data) >= ADDRESS_ENTRY.size, "an address that is cut off")
            interface, family, _, packed = ADDRESS_ENTRY.unpack_from(data)
            require(family in (4, 6), "an address of no family")
            self.ips.append((interface, ipaddress.ip_address(packed[:4] if family == 4 else packed)))
            return ADDRESS_NUMBERS
        return 1
