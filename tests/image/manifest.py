#!/usr/bin/python3
"""The manifest for Kubernetes: what it says, and what it must say.

    tests/image/manifest.py

Prints each fault, and ends with 1 if there is one. `run` reads from here how it starts the containers.
"""

import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "systemd" / "kubernetes" / "daemonset.yaml"
UNIT = ROOT / "systemd" / "profd.service"
IMAGE = "localhost/profd"
SUFFIXES = {"Mi": 2**20, "Gi": 2**30}


def read_objects() -> list:
    with open(MANIFEST, encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def object_of(objects: list, kind: str, name: str) -> dict:
    found = [one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    if len(found) != 1:
        sys.exit(f"{MANIFEST}: {len(found)} objects are {kind} {name}, and not one")
    return found[0]


def pod_of(objects: list, name: str) -> dict:
    return object_of(objects, "DaemonSet", name)["spec"]["template"]["spec"]


def container_of(pod: dict) -> dict:
    if len(pod["containers"]) != 1 or pod.get("initContainers"):
        sys.exit(f"{MANIFEST}: a pod has other containers than one")
    return pod["containers"][0]


def project_version() -> str:
    return re.search(r"project\(profd VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def setting_of_unit(key: str) -> str:
    return re.search(rf"^{key}=(.*)$", UNIT.read_text(), re.MULTILINE).group(1)


def bytes_of(quantity: str) -> int:
    number, suffix = re.fullmatch(r"(\d+)(Mi|Gi)", quantity).groups()
    return int(number) * SUFFIXES[suffix]


def faults_of_security(name: str, container: dict, capabilities: set) -> list:
    context = container["securityContext"]
    faults = []
    for key, value in [("privileged", False), ("allowPrivilegeEscalation", False), ("readOnlyRootFilesystem", True),
                       ("runAsUser", 0)]:
        if repr(context.get(key)) != repr(value):  # False is 0
            faults.append(f"{name}: {key} is {context.get(key)}, and not {value}")
    if context["capabilities"]["drop"] != ["ALL"]:
        faults.append(f"{name}: it does not drop all capabilities")
    added = context["capabilities"].get("add", [])
    if len(added) != len(set(added)) or {f"CAP_{one}" for one in added} != capabilities:
        faults.append(f"{name}: it adds {sorted(added)}, and not {sorted(capabilities)}")
    return faults


def faults_of_volumes(name: str, pod: dict, writable: set) -> list:
    """Each volume is mounted, each mount has its volume, and what is not `writable` can't be written to."""
    mounts = container_of(pod)["volumeMounts"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    faults = []
    if len(volumes) != len(pod["volumes"]) or {mount["name"] for mount in mounts} != set(volumes):
        faults.append(f"{name}: volumes and mounts differ")
    for mount in mounts:
        if mount.get("readOnly", False) != (mount["mountPath"] not in writable):
            faults.append(f"{name}: {mount['mountPath']} has the wrong readOnly")
        # What profd and profctl name is where the node has it.
        path = volumes.get(mount["name"], {}).get("hostPath", {}).get("path", mount["mountPath"])
        if path != mount["mountPath"]:
            faults.append(f"{name}: {path} of the node is {mount['mountPath']} in the container")
    return faults


def faults_of_daemon_set(daemon_set: dict) -> list:
    name = daemon_set["metadata"]["name"]
    spec = daemon_set["spec"]
    pod = spec["template"]["spec"]
    container = container_of(pod)
    faults = []
    labels = spec["template"]["metadata"]["labels"]
    if spec["selector"]["matchLabels"] != labels or daemon_set["metadata"]["labels"] != labels:
        faults.append(f"{name}: the labels differ")
    if container["image"] != f"{IMAGE}:{project_version()}":
        faults.append(f"{name}: the image is {container['image']}, and not that of make image")
    if spec["updateStrategy"] != {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "10%"}}:
        faults.append(f"{name}: two pods of a node may run at once")
    if {"operator": "Exists"} not in pod["tolerations"]:
        faults.append(f"{name}: taints keep it from nodes")
    if pod["nodeSelector"] != {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}:
        faults.append(f"{name}: it may start on other nodes than Linux on x86-64")
    if pod.get("automountServiceAccountToken") is not False:
        faults.append(f"{name}: it gets a token of the API server")
    if pod.get("hostIPC") or pod.get("shareProcessNamespace"):
        faults.append(f"{name}: it shares namespaces that it does not need")
    if "cpu" in container["resources"]["limits"]:
        faults.append(f"{name}: its CPU time is limited")
    return faults


def faults_of_profd(objects: list) -> list:
    pod = pod_of(objects, "profd")
    container = container_of(pod)
    needed = set(setting_of_unit("CapabilityBoundingSet").split())
    faults = faults_of_security("profd", container, needed)
    faults += faults_of_volumes("profd", pod, {"/run/profd", "/var/lib/profd"})
    if len(needed) != 6:
        faults.append("profd.service has other capabilities than six")
    if pod.get("hostPID") is not True or pod.get("hostNetwork"):
        faults.append("profd: it needs the PID namespace of the node, and no network of it")
    # The default profiles forbid what it does.
    for key in ["seccompProfile", "appArmorProfile"]:
        if container["securityContext"].get(key) != {"type": "Unconfined"}:
            faults.append(f"profd: {key} is not Unconfined")
    if bytes_of(container["resources"]["limits"]["memory"]) != bytes_of(setting_of_unit("MemoryMax") + "i"):
        faults.append("profd: the limit of memory is not that of profd.service")
    if setting_of_unit("TimeoutStopSec") != "5min" or pod["terminationGracePeriodSeconds"] != 5 * 60:
        faults.append("profd: its time to end is not that of profd.service")
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"]:
        command = container[probe]["exec"]["command"]
        if command != ["/usr/bin/profctl", "--socket", "/run/profd/admin.sock", "status"]:
            faults.append(f"profd: {probe} runs {command}")
    policy = object_of(objects, "NetworkPolicy", "profd")["spec"]
    labels = object_of(objects, "DaemonSet", "profd")["spec"]["template"]["metadata"]["labels"]
    if policy != {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress", "Egress"]}:
        faults.append("profd: its network is not closed")
    return faults


def faults_of_ship(objects: list) -> list:
    pod = pod_of(objects, "profd-ship")
    container = container_of(pod)
    faults = faults_of_security("profd-ship", container, set())
    faults += faults_of_volumes("profd-ship", pod, {"/run/profd-ship", "/var/lib/profd-ship"})
    if pod.get("hostPID") or pod.get("hostNetwork") is not True or pod["dnsPolicy"] != "ClusterFirstWithHostNet":
        faults.append("profd-ship: it needs the name and the network of the node, and not its processes")
    if container["securityContext"].get("seccompProfile") != {"type": "RuntimeDefault"}:
        faults.append("profd-ship: seccompProfile is not RuntimeDefault")
    if container["command"] != ["/usr/bin/profctl", "ship"]:
        faults.append("profd-ship: it runs something else")
    probe = container["livenessProbe"]["exec"]["command"]
    if probe != ["/usr/bin/profctl", "ship", "--is-running"]:
        faults.append(f"profd-ship: livenessProbe runs {probe}")
    return faults


def faults_of(objects: list) -> list:
    faults = faults_of_profd(objects) + faults_of_ship(objects)
    for name in ["profd", "profd-ship"]:
        faults += faults_of_daemon_set(object_of(objects, "DaemonSet", name))
    for name in ["profd", "profd-ship"]:
        for volume in pod_of(objects, name)["volumes"]:
            if "configMap" in volume:
                object_of(objects, "ConfigMap", volume["configMap"]["name"])
    for one in objects:
        if one["kind"] != "Namespace" and one["metadata"].get("namespace") != "profd":
            faults.append(f"{one['kind']} {one['metadata']['name']} is not in the namespace profd")
    return faults


def main() -> int:
    faults = faults_of(read_objects())
    for fault in faults:
        print(f"{MANIFEST}: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
