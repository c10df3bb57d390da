"""podman with a storage of its own, and what the manifest says as options of podman."""

import json
import os
import pathlib
import resource
import subprocess
import sys

import manifest

SECONDS = 300  # of a command: a guard against one that hangs


def fail(text: str) -> None:
    sys.exit(f"tests/image/run: {text}")


def run(command: list, check=True, **options) -> subprocess.CompletedProcess:
    command = [str(argument) for argument in command]
    try:
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS,
                              check=False, **options)
    except subprocess.TimeoutExpired:
        fail(f"{' '.join(command)}\nhas not ended after {SECONDS} s")
    if check and done.returncode != 0:
        fail(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def mounts() -> list:
    """Lines of the list of mounts, as fields."""
    return [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]


class Podman:
    def __init__(self, directory: pathlib.Path):
        self.directory = directory
        directory.mkdir()
        # In a chroot nothing is mounted at its root, and pivot_root can't be used.
        is_chroot = all(fields[4] != "/" for fields in mounts())
        # podman asks for more than this process may allow.
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limits = [f"nofile={files}:{files}", "nproc=4096:4096"]
        settings = directory / "containers.conf"
        settings.write_text(f"[containers]\nlog_driver = \"k8s-file\"\ndefault_ulimits = {json.dumps(limits)}\n"
                            "[engine]\ncgroup_manager = \"cgroupfs\"\n"
                            "events_logger = \"file\"\nruntime = \"runc\"\n"
                            f"no_pivot_root = {'true' if is_chroot else 'false'}\n")
        self.environment = dict(os.environ, CONTAINERS_CONF=str(settings), TMPDIR=str(directory))
        self.program = ["podman", "--root", directory / "storage", "--runroot", directory / "run", "--tmpdir",
                        directory / "libpod", "--storage-driver", "vfs"]

    def __call__(self, *arguments, check=True) -> subprocess.CompletedProcess:
        return run([*self.program, *arguments], check=check, env=self.environment)

    def create(self, *arguments, check=True) -> subprocess.CompletedProcess:
        """`podman run` with these arguments, without a network."""
        return self("run", "--pull=never", "--network=none", *arguments, check=check)

    def state_of(self, name: str) -> dict:
        return json.loads(self("inspect", name).stdout)[0]["State"]

    def logs_of(self, name: str) -> str:
        logs = self("logs", name, check=False)
        return logs.stdout + logs.stderr

    def remove_all(self) -> None:
        self("rm", "--all", "--force", "--time", "10", check=False)
        below = [fields[4] for fields in mounts() if fields[4].startswith(f"{self.directory}/")]
        for place in reversed(below):
            run(["umount", "--lazy", place], check=False)


def write_config_map(directory: pathlib.Path, data: dict) -> None:
    """As the kubelet does: files are links to those of a version, which it replaces as a whole."""
    version = directory / "..version"
    version.mkdir(parents=True)
    (directory / "..data").symlink_to(version.name)
    for name, text in data.items():
        (version / name).write_text(text)
        (directory / name).symlink_to(f"..data/{name}")


class Node:
    """Directories that stand for those of a node. Its cgroups are those of this host."""

    def __init__(self, directory: pathlib.Path, objects: list, more_settings: dict):
        self.directory = directory
        self.objects = objects
        self.more_settings = more_settings
        directory.mkdir()

    def place_of(self, path: str) -> pathlib.Path:
        if path == "/sys/fs/cgroup":
            return pathlib.Path(path)
        place = self.directory / path.strip("/").replace("/", "-")
        if not place.exists():
            place.mkdir(mode=0o755)
        return place

    def source_of(self, volume: dict) -> pathlib.Path:
        if "hostPath" in volume:
            return self.place_of(volume["hostPath"]["path"])
        if "secret" in volume:
            return self.place_of("secret")
        name = volume["configMap"]["name"]
        place = self.directory / f"configmap-{name}"
        if not place.exists():
            data = manifest.object_of(self.objects, "ConfigMap", name)["data"]
            write_config_map(place, data | self.more_settings.get(name, {}))
        return place

    def volumes_of(self, pod: dict) -> list:
        sources = {volume["name"]: self.source_of(volume) for volume in pod["volumes"]}
        return [f"--volume={sources[mount['name']]}:{mount['mountPath']}:{'ro' if mount.get('readOnly') else 'rw'}"
                for mount in manifest.container_of(pod)["volumeMounts"]]


def options_of(pod: dict) -> list:
    """The rights of the only container of the pod."""
    context = manifest.container_of(pod)["securityContext"]
    options = [f"--user={context['runAsUser']}:{context['runAsGroup']}"]
    options += [f"--cap-drop={name}" for name in context["capabilities"]["drop"]]
    options += [f"--cap-add={name}" for name in context["capabilities"].get("add", [])]
    if context["readOnlyRootFilesystem"]:
        options += ["--read-only", "--read-only-tmpfs=false"]
    if not context["allowPrivilegeEscalation"]:
        options.append("--security-opt=no-new-privileges")
    for key, option in [("seccompProfile", "seccomp"), ("appArmorProfile", "apparmor")]:
        if context.get(key, {}).get("type") == "Unconfined":
            options.append(f"--security-opt={option}=unconfined")
    if "seLinuxOptions" in context:
        options.append(f"--security-opt=label=type:{context['seLinuxOptions']['type']}")
    if pod.get("hostPID"):
        options.append("--pid=host")
    return options
