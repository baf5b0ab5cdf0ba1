"""The versions of glibc that programs and libraries need, as their dynamic sections say it, and the tag of a wheel that has them."""

import re
import struct

PROCESSORS = {62: "x86_64", 183: "aarch64"}  # by the number in the head of an ELF file
# Entries of the dynamic section.
STRINGS, NEEDS, NEEDS_COUNT = 5, 0x6FFFFFFE, 0x6FFFFFFF
LOADED, DYNAMIC = 1, 2  # kinds of segments
SYMBOLS, DEFINED, VERSIONS = 11, 0x6FFFFFFD, 0x6FFFFFFF  # kinds of sections
WEAK, UNVERSIONED, NOT_DEFAULT = 0x20, 1, 0x8000


class Elf:
    """A program or library of 64 bits, whose low byte comes first."""

    def __init__(self, data):
        self.data = data
        if data[4:6] != b"\x02\x01":
            raise ValueError("not of 64 bits with the low byte first")
        (self.processor,) = struct.unpack_from("<H", data, 18)
        (start,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        # Of each segment: kind, place in the file, address, length in the file.
        self.segments = [struct.unpack_from("<I4xQQ8xQ", data, start + size * index) for index in range(count)]

    def place(self, address):
        """Where the file has what is loaded at an address."""
        for kind, place, start, length in self.segments:
            if kind == LOADED and start <= address < start + length:
                return place + address - start
        raise ValueError(f"no segment has address {address:#x}")

    def dynamic(self):
        """The entries of the dynamic section: a number by the kind of entry. Of a kind that is there several times, the last."""
        for kind, place, _, length in self.segments:
            if kind == DYNAMIC:
                return dict(struct.iter_unpack("<qQ", self.data[place:place + length]))
        return {}

    def text(self, strings, offset):
        start = strings + offset
        return self.data[start:self.data.index(b"\0", start)].decode()

    def sections(self):
        """Of each section, by its kind: place in the file, length, number of the section that belongs to it. And the places of all."""
        (start,) = struct.unpack_from("<Q", self.data, 40)
        size, count = struct.unpack_from("<HH", self.data, 58)
        heads = [struct.unpack_from("<4xI16xQQI", self.data, start + size * index) for index in range(count)]
        return {kind: (place, length, link) for kind, place, length, link in heads}, [place for _, place, _, _ in heads]

    def defines(self, at, strings):
        """The names of the versions that a library defines, by their numbers; `at` is the place of the definitions."""
        names, following = {}, 1
        while following:
            number, first, following = struct.unpack_from("<4xH6xII", self.data, at)
            (name,) = struct.unpack_from("<I", self.data, at + first)
            names[number] = self.text(strings, name)
            at += following
        return names

    def needs(self):
        """The library and the name of each version that this file needs of another library."""
        entries = self.dynamic()
        if NEEDS not in entries:
            return
        strings, at = self.place(entries[STRINGS]), self.place(entries[NEEDS])
        for _ in range(entries[NEEDS_COUNT]):
            count, library, first, following = struct.unpack_from("<2xHIII", self.data, at)
            version = at + first
            for _ in range(count):
                name, after = struct.unpack_from("<8xII", self.data, version)
                yield self.text(strings, library), self.text(strings, name)
                version += after
            at += following


def of_glibc(name):
    """The version that a name such as GLIBC_2.17 stands for; `None` if it is no name of glibc's."""
    if not name.startswith("GLIBC_"):
        return None
    found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", name)
    if not found:
        # GLIBC_PRIVATE, or GLIBC_ABI_DT_RELR and the like, which stand for what the loader can do.
        raise ValueError(f"{name} stands for no version of glibc that a tag can name")
    return int(found[1]), int(found[2])


def without_newer(data, newest):
    """A library of glibc in which the functions of versions after `newest` are not defined, to link with. What a program needs of them is an
    error, and what it uses if it is there, as Rust's standard library does, is looked for at run time, by its name alone. Where a
    function has an older version, that one is used.
    """
    elf, changed = Elf(data), bytearray(data)
    kinds, places = elf.sections()
    (symbols, length, link), (versions, _, _), (defined, _, _) = (kinds[kind] for kind in (SYMBOLS, VERSIONS, DEFINED))
    names = elf.defines(defined, places[link])
    left_out, older = set(), {}
    for index in range(1, length // 24):
        symbol, version = symbols + 24 * index, versions + 2 * index
        (name, section), (number,) = struct.unpack_from("<I2xH", data, symbol), struct.unpack_from("<H", data, version)
        found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", names.get(number & ~NOT_DEFAULT, ""))
        if section == 0 or not found:
            continue
        since, text = (int(found[1]), int(found[2])), elf.text(places[link], name)
        if since > newest:
            struct.pack_into("<BxH", changed, symbol + 4, WEAK, 0)
            struct.pack_into("<H", changed, version, UNVERSIONED)
            left_out.add(text)
        else:
            older[text] = max(older.get(text, (since, version)), (since, version))
    for text in left_out & older.keys():
        version = older[text][1]
        (number,) = struct.unpack_from("<H", changed, version)
        struct.pack_into("<H", changed, version, number & ~NOT_DEFAULT)
    return bytes(changed)


def tag(files, newest_allowed):
    """The tag of a wheel with these files (path, bytes, whether it is a program).

    Raises ValueError if a file needs a version of glibc that is newer than `newest_allowed` (a pair of numbers, or None), or one that no tag
    can name, or if the files are for several kinds of processors, or none is for any.
    """
    newest, processors, too_new = (2, 5), set(), []
    for path, data, _ in files:
        if not data.startswith(b"\x7fELF"):
            continue
        try:
            elf = Elf(data)
            processors.add(PROCESSORS.get(elf.processor, f"number {elf.processor}"))
            for library, name in elf.needs():
                version = of_glibc(name)
                newest = max(newest, version or newest)
                if version and newest_allowed and version > newest_allowed:
                    too_new.append(f"{path} needs {name} of {library}")
        except (ValueError, KeyError, struct.error) as error:
            raise ValueError(f"{path}: {error}") from error
    if too_new:
        allowed = ".".join(map(str, newest_allowed))
        raise ValueError(f"newer than glibc {allowed}: {'; '.join(too_new)} (--sysroot links with an older glibc; objdump -T tells functions)")
    if len(processors) != 1:
        raise ValueError(f"the files are for {' and '.join(sorted(processors)) or 'no processor'}; a wheel is for one")
    return f"py3-none-manylinux_{newest[0]}_{newest[1]}_{processors.pop()}"
