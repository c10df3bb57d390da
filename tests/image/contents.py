"""What an OCI archive has, and what of it does not belong into the image of profd."""

import gzip
import io
import json
import pathlib
import re
import subprocess
import tarfile

MAX_BYTES = 40_000_000
PROGRAMS = ["usr/sbin/profd", "usr/bin/profctl"]
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "usr/lib64/ld-linux-x86-64.so.2"
LINKS = {"lib": "usr/lib", "lib64": "usr/lib64", "etc/os-release": "../usr/lib/os-release",
         "usr/lib/ssl/cert.pem": "/etc/ssl/certs/ca-certificates.crt"}
OTHER_FILES = re.compile(r"etc/(passwd|group|nsswitch\.conf|profd/profd\.toml|ssl/certs/ca-certificates\.crt)"
                         r"|usr/lib/os-release|usr/share/doc/[a-z0-9.+-]+/copyright|usr/share/common-licenses/[\w.+-]+")
# Mounts lie there; /tmp is a directory of the image, since programs expect one.
EMPTY_DIRECTORIES = {"dev", "etc/profd/conf.d", "etc/profd-secrets", "proc", "run/profd", "run/profd-ship", "sys", "tmp",
                     "var/lib/profd", "var/lib/profd-ship", "var/log/pods"}
ELF_MAGIC = b"\x7fELF"


class Image:
    """The configuration, and the entries of the only layer by their names."""

    def __init__(self, archive: pathlib.Path):
        with tarfile.open(archive) as tar:
            blobs = {member.name.removeprefix("./"): tar.extractfile(member).read() for member in tar if member.isfile()}

        def blob(descriptor: dict) -> bytes:
            return blobs["blobs/" + descriptor["digest"].replace(":", "/")]

        manifest = json.loads(blob(json.loads(blobs["index.json"])["manifests"][0]))
        self.config = json.loads(blob(manifest["config"]))["config"]
        self.layers = [blob(layer) for layer in manifest["layers"]]
        self.entries = {}
        self.bytes = {}
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(unpacked(layer))) as tar:
                self._add(tar)

    def _add(self, tar: tarfile.TarFile) -> None:
        for member in tar:
            name = member.name.removeprefix("./").strip("/")
            if name in ("", "."):
                continue
            self.entries[name] = member
            if member.isfile():
                self.bytes[name] = tar.extractfile(member).read()


def unpacked(layer: bytes) -> bytes:
    return gzip.decompress(layer) if layer.startswith(b"\x1f\x8b") else layer


def needed_by(program: bytes, directory: pathlib.Path) -> set:
    """The files that the program names, as readelf shows them: its libraries and its loader."""
    path = directory / "elf"
    path.write_bytes(program)
    shown = subprocess.run(["readelf", "--wide", "--dynamic", "--program-headers", path], check=True, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
    libraries = re.findall(r"\(NEEDED\)\s+Shared library: \[(.+)\]", shown)
    loaders = re.findall(r"Requesting program interpreter: /(.+)\]", shown)
    return {file_of_library(name) for name in libraries} | {f"usr/{name}" for name in loaders}


def file_of_library(name: str) -> str:
    return LOADER if name == pathlib.PurePath(LOADER).name else f"{LIBRARIES}/{name}"


def closure_of(image: Image, directory: pathlib.Path) -> set:
    """The programs and all that is loaded for them. What the image lacks is in it, too."""
    found = set()
    waiting = set(PROGRAMS)
    while waiting:
        name = waiting.pop()
        found.add(name)
        if name in image.bytes:
            waiting |= needed_by(image.bytes[name], directory) - found
    return found


def packages_of(library: str) -> set:
    """The Debian packages that have a file of this name in the directory of libraries."""
    directory = "*/lib64" if library == LOADER else "*/x86_64-linux-gnu"
    shown = subprocess.run(["dpkg-query", "-S", f"{directory}/{pathlib.PurePath(library).name}"], check=False, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return {line.split(":")[0].split(",")[0] for line in shown.splitlines()}


def faults_of_files(image: Image, directory: pathlib.Path) -> list:
    closure = closure_of(image, directory)
    programs = {name for name, content in image.bytes.items() if content.startswith(ELF_MAGIC)}
    faults = [f"{name} is missing, and is loaded" for name in sorted(closure - programs)]
    faults += [f"{name} is not loaded by profd or profctl" for name in sorted(programs - closure)]
    for name in sorted(set(image.bytes) - programs):
        if not OTHER_FILES.fullmatch(name):
            faults.append(f"{name} does not belong into the image")
        if image.bytes[name].startswith(b"#!") or image.entries[name].mode & 0o111:
            faults.append(f"{name} can be executed")
    for name in sorted(closure - set(PROGRAMS)):
        if not any(f"usr/share/doc/{package}/copyright" in image.bytes for package in packages_of(name)):
            faults.append(f"{name} has no licence in the image")
    return faults


def faults_of_entries(image: Image) -> list:
    links = {name: entry.linkname for name, entry in image.entries.items() if entry.issym()}
    faults = [] if links == LINKS else [f"the links are {links}"]
    parents = {str(parent) for name in image.entries for parent in pathlib.PurePath(name).parents}
    for name, entry in image.entries.items():
        if not (entry.isfile() or entry.issym() or entry.isdir()):
            faults.append(f"{name} is a device or a hard link")
        if entry.isdir() and name not in parents | EMPTY_DIRECTORIES:
            faults.append(f"the directory {name} is empty")
        if (entry.uid, entry.gid) != (0, 0):
            faults.append(f"{name} does not belong to root")
        if entry.mode & 0o6000 or (entry.mode & 0o022 and not entry.issym() and name != "tmp"):
            faults.append(f"{name} has the mode {entry.mode:o}")
    return faults


def faults_of(archive: pathlib.Path, directory: pathlib.Path) -> list:
    image = Image(archive)
    faults = []
    packed = archive.stat().st_size
    plain = sum(len(content) for content in image.bytes.values())
    for what, size in [("the archive", packed), ("what it has", plain)]:
        if size > MAX_BYTES:
            faults.append(f"{what} takes {size} bytes, over {MAX_BYTES}")
    if len(image.layers) != 1:
        faults.append(f"it has {len(image.layers)} layers")
    expected = {"Entrypoint": ["/usr/sbin/profd"], "User": "0:0", "Env": ["PATH=/usr/sbin:/usr/bin"]}
    for key, value in expected.items():
        if image.config.get(key) != value:
            faults.append(f"its {key} is {image.config.get(key)}")
    if image.config.get("Cmd"):
        faults.append(f"its Cmd is {image.config['Cmd']}")
    return faults + faults_of_files(image, directory) + faults_of_entries(image)
