"""Stacks without frame pointers: how many are complete, beside both modes of perf; what they cost in the kernel; and
what the tables of a whole host cost."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

from harness import Bench, bpf_statistics, cpu_seconds, family, row, sampler_program

FREQUENCY = 99
SECONDS = 20
# The outermost frame of a whole stack as perf names it, or that frame's callee where a stripped program has no name for
# its entry.
ENTRIES = ("_start", "__clone3", "clone3", "__clone", "clone", "__GI___clone", "thread_start")
CALLED_BY_ENTRY = ("__libc_start_main", "_dl_start")

CPLUSPLUS_SOURCE = """
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Deep { std::map<std::string, std::vector<Deep<N - 1>>> next; };
template <> struct Deep<0> { std::function<std::string(const std::regex&)> call; };
int main() {
  Deep<8> deep;
  std::vector<std::string> words{"a", "b"};
  std::sort(words.begin(), words.end(), std::greater<>());
  return static_cast<int>(std::regex_match(words[0], std::regex("a|b")) + deep.next.size());
}
"""


def shell(command: str):
    return lambda bench, seconds: timed(bench, seconds, ["/bin/sh", "-c", command])


def timed(bench: Bench, seconds: float, command: list) -> None:
    """The command again and again, for `seconds`."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=bench.directory,
                                   start_new_session=True)
        try:
            process.wait(left)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def compiler(bench: Bench, seconds: float) -> None:
    (bench.directory / "large.cc").write_text(CPLUSPLUS_SOURCE)
    timed(bench, seconds, ["g++", "-std=c++20", "-O2", "-c", "large.cc", "-o", "/dev/null"])


def python(bench: Bench, seconds: float) -> None:
    program = ("import sys\nsys.setrecursionlimit(9000)\n"
               "def descend(n):\n return sum(i * i for i in range(200000)) if n == 0 else descend(n - 1) + 1\n"
               "while True: descend(25)\n")
    timed(bench, seconds, ["/usr/bin/python3", "-c", program])


def git(bench: Bench, seconds: float) -> None:
    repository = bench.directory / "repository"
    if not repository.exists():
        script = ("git init -q . && for i in $(seq 200); do seq $((i * 300)) $((i * 300 + 3000)) > f$i; done && "
                  "git -c user.name=a -c user.email=a@b add . && git -c user.name=a -c user.email=a@b commit -qm one")
        repository.mkdir()
        subprocess.run(["/bin/sh", "-c", script], cwd=repository, check=True, stdout=subprocess.DEVNULL)
    timed(bench, seconds, ["git", "-C", str(repository), "repack", "-adfq", "--window=50"])


def perl(bench: Bench, seconds: float) -> None:
    timed(bench, seconds, ["perl", "-e", "sub f { my $n = shift; return $n ? f($n - 1) + 1 : do { my $s = join q(,), "
                                         "sort map { $_ * 7 % 1009 } 1..2000; $s =~ s/(\\d+),/$1;/g; 1 } } "
                                         "no warnings; f(30) while 1"])


def nginx(bench: Bench, seconds: float) -> None:
    """Debian's nginx out of its package, so that no service is started, under a client that never rests."""
    root = unpacked(bench, "nginx")
    site = bench.directory / "site"
    site.mkdir(exist_ok=True)
    (site / "index.html").write_text("x" * 20000)
    port = 18080
    configuration = bench.directory / "nginx.conf"
    configuration.write_text(f"""daemon off; worker_processes 1; pid {site}/pid; error_log {site}/errors;
events {{}}
http {{ access_log off; gzip on; gzip_types text/html; client_body_temp_path {site}; proxy_temp_path {site};
        fastcgi_temp_path {site}; uwsgi_temp_path {site}; scgi_temp_path {site};
        server {{ listen 127.0.0.1:{port}; root {site}; }} }}
""")
    os.chmod(bench.directory, 0o755)
    server = subprocess.Popen([str(root / "usr/sbin/nginx"), "-c", str(configuration), "-p", str(site), "-g",
                               "user root;"], stderr=subprocess.DEVNULL)
    until = time.monotonic() + seconds
    time.sleep(0.5)
    try:
        while time.monotonic() < until:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/index.html", headers={"Accept-Encoding": "gzip"})
            urllib.request.urlopen(request).read()
    finally:
        server.terminate()
        server.wait()


def unpacked(bench: Bench, package: str) -> pathlib.Path:
    root = bench.directory / package
    if not root.exists():
        root.mkdir(mode=0o755)
        os.chmod(root, 0o755)
        subprocess.run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package], cwd=root, check=True)
        subprocess.run(["dpkg-deb", "-x", str(next(root.glob("*.deb"))), str(root)], check=True)
    return root


def node(bench: Bench, seconds: float) -> None:
    timed(bench, seconds, ["node", "-e", "const z = require('zlib'), c = require('crypto'); let b = Buffer.alloc(3e5, 'ab');"
                                         "for (;;) { z.deflateSync(b); c.pbkdf2Sync('a', 'b', 2000, 64, 'sha512');"
                                         "JSON.parse(JSON.stringify(Array(5000).fill({a: 1, b: 'c'}))); }"])


# Name, workload, the processes that count, the floor in percent.
WORKLOADS = (
    ("g++ -O2 of a large file", compiler, {"cc1plus"}, 99.9),
    ("python3, deep recursion", python, {"python3"}, 99.9),
    ("C++: std::regex, qsort, signal handlers",
     lambda bench, seconds: timed(bench, seconds, [str(bench.workloads / "callbacks"), str(seconds)]), {"callbacks"}, 99.9),
    ("git repack", git, {"git"}, 99.9),
    ("perl", perl, {"perl"}, 99.9),
    ("xz -6", shell("head -c 40000000 /usr/lib/gcc/x86_64-linux-gnu/12/cc1plus | xz -6 -c"), {"xz"}, 99.9),
    ("openssl speed", shell("openssl speed -seconds 1 sha256 rsa2048 ecdsap256; for cipher in aes-128-gcm aes-256-cbc "
                            "chacha20-poly1305; do openssl speed -seconds 1 -evp $cipher; done"), {"openssl"}, 99.9),
    ("nginx under load", nginx, {"nginx"}, 99.9),
    ("node, native frames", node, {"node"}, 99.5),
)


def profd_share(summary: dict, comms: set) -> tuple:
    chosen = [p for p in summary["profiles"] if p["comm"] in comms]
    user = sum(p["user_samples"] for p in chosen)
    reasons = {}
    for profile in chosen:
        for reason, count in profile["incomplete"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    return sum(p["complete_samples"] for p in chosen), user, reasons


def perf_share(data: pathlib.Path, comms: set) -> str:
    """Complete of all, by the outermost frame's name; ticks in exit and exec have no user frame and are left out."""
    command = ["perf", "script", "--no-inline", "-i", str(data), "--comms", ",".join(sorted(comms)), "-F", "comm,ip,sym"]
    text = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace").stdout
    complete = whole = 0
    for sample in text.split("\n\n"):
        frames = [line.split(None, 1) for line in sample.splitlines()[1:] if line.strip()]
        user = [frame for frame in frames if not frame[0].startswith("ffff")]
        if not user:
            continue
        whole += 1
        names = [frame[1] if len(frame) > 1 else "" for frame in user]
        complete += names[-1].startswith(ENTRIES) or (len(names) > 1 and names[-2].startswith(CALLED_BY_ENTRY))
    return f"{100 * complete / whole:.2f} %" if whole else "-"


def perf_recorder(data: pathlib.Path, mode: str) -> subprocess.Popen:
    # Reading what it records of BPF programs that are loaded meanwhile, perf 6.1 fails half-way ("Bad address").
    return subprocess.Popen(["perf", "record", "-q", "-a", "--no-bpf-event", "--call-graph", mode, "-e", "cpu-clock", "-F",
                             str(FREQUENCY), "-o", str(data)], stderr=subprocess.DEVNULL)


def complete_stacks(bench: Bench) -> None:
    row("complete user stacks, 99 Hz", "profd", "perf dwarf / -g", "floor")
    for name, workload, comms, floor in WORKLOADS:
        dwarf, frame_pointer = bench.directory / "dwarf.data", bench.directory / "fp.data"
        recorders = [perf_recorder(dwarf, "dwarf"), perf_recorder(frame_pointer, "fp")]
        result = {}
        time.sleep(0.7)
        with bench.session(FREQUENCY, result):
            workload(bench, SECONDS)
        for recorder in recorders:
            recorder.send_signal(signal.SIGINT)
        for recorder in recorders:
            recorder.wait()
        complete, user, reasons = profd_share(result["summary"], comms)
        ours = f"{100 * complete / max(user, 1):.2f} % of {user}"
        row(f"  {name}", ours, f"{perf_share(dwarf, comms)} / {perf_share(frame_pointer, comms)}", f">= {floor} %")
        if reasons:
            print("    incomplete:", ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items())))


def time_by_depth(bench: Bench) -> None:
    """BPF's own run time of the sampling program, on a recursion built without frame pointers."""
    row("in the kernel, no frame pointers, ns a tick", "999 Hz", "99 Hz", "<= 2500 at 999 Hz, 31 frames")
    means = {}
    for frames in (26, 126, 400):
        for frequency, seconds in ((999, 4), (99, 15)):
            means[frames, frequency] = time_of_ticks(bench, frames, frequency, seconds)
        row(f"  {frames + 5} frames", f"{means[frames, 999]:.0f}", f"{means[frames, 99]:.0f}")
    further = (means[126, 999] - means[26, 999]) / 100
    row("  each further frame, warm, ns", f"{further:.1f}", "-", "<= 40")
    row("  verified instructions, the largest program's", str(most_verified_instructions(bench)), "-", "<= 300000")


def time_of_ticks(bench: Bench, frames: int, frequency: int, seconds: int) -> float:
    with bpf_statistics(), bench.profd():
        busy = bench.workload("depth_no_frame_pointers", seconds + 2, frames)
        session = bench.profctl("start", "-p", busy.pid, "-F", frequency).strip()
        time.sleep(1)  # until the tables are there
        before, samples_before = sampler_program(), bench.status()["received"]
        time.sleep(seconds)
        after, samples_after = sampler_program(), bench.status()["received"]
        busy.communicate()
        bench.profctl("stop", session, "-o", bench.directory / f"ticks-{frames}-{frequency}")
    # Ticks of other processes are filtered out at once; what they take is in the time too.
    run_time = after["run_time_ns"] - before.get("run_time_ns", 0)
    return run_time / max(samples_after - samples_before, 1)


def most_verified_instructions(bench: Bench) -> int:
    """Of all programs that the daemon holds."""
    with bench.profd() as daemon:
        return max(fdinfo(daemon.pid, "verified_insns"))


def libraries_of_a_desktop() -> list:
    """As many distinct files as a desktop runs: the largest libraries of this host."""
    libraries = [path for path in pathlib.Path("/usr/lib/x86_64-linux-gnu").glob("*.so*") if not path.is_symlink()]
    return sorted(libraries, key=lambda path: -path.stat().st_size)[:400]


def tables_of_a_desktop(bench: Bench) -> None:
    program = ("import mmap, os, sys, time\nkeep = []\n"
               "for path in sys.stdin.read().split():\n"
               " f = os.open(path, os.O_RDONLY)\n"
               " keep.append(mmap.mmap(f, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC))\n"
               "print('ready', flush=True)\ntime.sleep(600)\n")
    holder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    libraries = libraries_of_a_desktop()
    holder.stdin.write("\n".join(map(str, libraries)))
    holder.stdin.close()
    holder.stdout.readline()
    try:
        measure_tables(bench, len(libraries))
    finally:
        holder.kill()
        holder.wait()


def measure_tables(bench: Bench, files: int) -> None:
    started = time.monotonic()
    with bench.profd() as daemon:
        session = bench.profctl("start", "-a", "-F", FREQUENCY).strip()
        tables = wait_until_loaded(bench)
        seconds, cpu = time.monotonic() - started, sum(map(cpu_seconds, family(daemon.pid)))
        row(f"tables of {files} libraries and all that runs: s (CPU s)", f"{seconds:.2f} ({cpu:.2f})", "-", "<= 5")
        row("  files, rows, bytes a row", f"{tables['files']}, {tables['rows']}, {tables['bytes'] / tables['rows']:.2f}", "-",
            "<= 4.5 bytes")
        row("  BPF maps, MB", f"{bpf_map_bytes() / 1e6:.1f}", "-", "<= 50")
        row("  resident, parser too, MB", f"{sum(map(share_bytes, family(daemon.pid))) / 1e6:.1f}", "-", "<= 60")
        bench.profctl("stop", session, "-o", bench.directory / "desktop")


def wait_until_loaded(bench: Bench) -> dict:
    while True:
        tables = bench.status()["unwinding"]["tables"]
        if tables["rows"] > 0 and tables["loading"] == 0:
            return tables
        time.sleep(0.05)


def share_bytes(pid: int) -> int:
    """Resident memory, what processes share counted once in all."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def bpf_map_bytes() -> int:
    """What the kernel charges for the daemon's maps, by their names: it holds no descriptor of most tables."""
    maps = json.loads(subprocess.run(["bpftool", "map", "show", "--json"], capture_output=True, text=True,
                                     check=True).stdout)
    return sum(entry["bytes_memlock"] for entry in maps if entry.get("name", "").startswith(("profd", ".rodata", ".bss")))


def fdinfo(pid: int, key: str) -> list:
    """The numbers under a key in what the kernel tells of each descriptor."""
    numbers = []
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        fields = dict(line.split(":", 1) for line in info.read_text().splitlines() if ":" in line)
        if key in fields:
            numbers.append(int(fields[key]))
    return numbers
