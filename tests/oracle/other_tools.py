"""What tools of the tool chains say of the addresses of an ELF file."""

import bisect
import collections
import functools
import os
import pathlib
import re
import resource
import subprocess
import tempfile
import typing

from profile_proto import Frame

SYMBOLIZER = "llvm-symbolizer-19"


def output(*command, **options) -> str:
    return subprocess.run([str(argument) for argument in command], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, **options).stdout


class Asked(typing.NamedTuple):
    frames: list  # for each address, a tuple of Frame
    cpu_seconds: float


def frame_of(function: str, place: str) -> Frame:
    file, line, _ = place.rsplit(":", 2)
    return Frame("" if function == "??" else function, "" if file == "??" else os.path.normpath(file), int(line))


def ask_llvm(path: pathlib.Path, addresses: list) -> Asked:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = output(SYMBOLIZER, "--inlines", "--no-demangle", "--functions=linkage", f"--obj={path}",
                  input="".join(f"{address:#x}\n" for address in addresses))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answers = []
    for block in text.split("\n\n")[:-1]:
        lines = block.strip("\n").split("\n")
        answers.append(tuple(map(frame_of, lines[::2], lines[1::2])))
    if len(answers) != len(addresses):
        raise RuntimeError(f"{path}: {len(addresses)} addresses, {len(answers)} answers")
    return Asked(answers, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def without_version(slot: str) -> str:
    return re.sub(r"@.*@plt$", "@plt", slot)


class Symbol(typing.NamedTuple):
    start: int
    size: int  # 0: not known
    name: str


class Section(typing.NamedTuple):
    name: str
    start: int
    size: int


class ElfFile:
    """What readelf, nm and objdump list of a file and of its debug file."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.debug_file = self.find_debug_file()
        self.sections = self.read_sections(path)
        with_names = self.debug_file or path
        self.has_dwarf = any(section.name == ".debug_info" for section in self.read_sections(with_names))
        self.symbols = sorted(self.read_symbols(with_names) + self.read_symbols(path, "-D"))
        self.longest = max((symbol.size for symbol in self.symbols), default=0)

    def find_debug_file(self) -> typing.Optional[pathlib.Path]:
        found = re.search(r"Build ID: ([0-9a-f]+)", output("readelf", "-n", self.path))
        if not found:
            return None
        path = pathlib.Path("/usr/lib/debug/.build-id") / found[1][:2] / (found[1][2:] + ".debug")
        return path if path.exists() else None

    @staticmethod
    def read_sections(path: pathlib.Path) -> list:
        listed = re.finditer(r"^ +\[ *\d+\] (\S+) +\S+ +([0-9a-f]{16}) [0-9a-f]+ ([0-9a-f]+) ",
                             output("readelf", "-SW", path), re.M)
        return [Section(match[1], int(match[2], 16), int(match[3], 16)) for match in listed]

    @staticmethod
    def read_symbols(path: pathlib.Path, *options) -> list:
        listed = output("nm", "-S", "--defined-only", *options, path)
        found = re.finditer(r"^([0-9a-f]+) (?:([0-9a-f]+) )?[tTwWiIuVv] (.+)$", listed, re.M)
        return [Symbol(int(match[1], 16), int(match[2] or "0", 16), match[3]) for match in found]

    def section_of(self, address: int) -> str:
        return next((section.name for section in self.sections
                     if 0 < section.start <= address < section.start + section.size), "")

    def symbols_at(self, address: int) -> list:
        """Those whose range contains the address, and those without a size that start at most 4 KiB before it."""
        first = bisect.bisect_left(self.symbols, (address - max(self.longest, 4096),))
        last = bisect.bisect_left(self.symbols, (address + 1,))
        return [symbol for symbol in self.symbols[first:last] if address - symbol.start < (symbol.size or 4096)]

    def is_plt_slot_of(self, address: int, name: str) -> bool:
        """Whether objdump has the address in the slot of this function. Without a name: in no slot."""
        label = max((label for label in self.plt_labels if label[0] <= address), default=(0, ""))[1]
        # An indirect function without a symbol in the relocation: "*ABS*+0xa0ab0@plt", where its resolver is.
        if match := re.match(r"\*ABS\*\+0x([0-9a-f]+)@plt$", label):
            resolver = int(match[1], 16)
            return any(symbol.start == resolver and symbol.name.split("@")[0] + "@plt" == without_version(name)
                       for symbol in self.symbols_at(resolver))
        is_slot = label.endswith("@plt")  # "malloc@plt-0x10": what comes before the first slot
        return label == without_version(name) if is_slot else not name

    @functools.cached_property
    def plt_labels(self) -> list:
        """Addresses in the PLT, and the labels that objdump has for what follows them."""
        names = {section.name for section in self.sections if section.name.startswith(".plt")}
        listed = output("objdump", "-d", *(f"-j{name}" for name in names), self.path)
        return [(int(match[1], 16), match[2]) for match in re.finditer(r"^([0-9a-f]+) <(.+)>:$", listed, re.M)]

    def ask_dwarf_alone(self, addresses: list) -> list:
        """llvm-symbolizer on a copy without symbol tables."""
        with tempfile.NamedTemporaryFile() as copy:
            output("objcopy", "--strip-all", "--keep-section=.debug_*", self.debug_file or self.path, copy.name)
            return ask_llvm(pathlib.Path(copy.name), addresses).frames


def group_by_file(locations: list) -> dict:
    files = collections.defaultdict(list)
    for location in locations:
        files[location.mapping].append(location)
    return files
