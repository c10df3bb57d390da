"""A Parca that keeps what it is sent, and refuses what its gateway and its normalizer refuse."""

import base64
import gzip
import json
import re

from stand_in import Refused, StandIn, check_known, check_tables, decode, number, numbers, require

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")


def unique_members(pairs: list) -> dict:
    members = dict(pairs)
    require(len(members) == len(pairs), "a member is there twice")
    return members


def has_members(value, names: set) -> dict:
    require(isinstance(value, dict) and set(value) <= names, f"members of {str(value)[:80]}")
    return value


def check_labels(series: dict) -> dict:
    pairs = has_members(series.get("labels", {}), {"labels"}).get("labels", [])
    labels = {}
    for pair in pairs:
        name = has_members(pair, {"name", "value"}).get("name", "")
        require(LABEL_NAME.match(name) is not None, f"invalid label name: {name}")
        require(name not in labels, f"duplicate label name: {name}")
        labels[name] = pair.get("value", "")
    require(labels.get("__name__", "") != "", "missing __name__ label")
    return labels


def check_profile(profile: dict) -> None:
    check_known(profile, "profile")
    check_tables(profile)
    for table in ("mapping", "function", "location"):
        ids = [number(entry, "id") for entry in profile.get(table, [])]
        require(ids == list(range(1, len(ids) + 1)), f"{table} id is not sequential")
    types = len(profile.get("sample_type", []))
    samples = profile.get("sample", [])
    require(types > 0 and bool(samples), "missing sample type information, or no samples")
    for sample in samples:
        require(len(numbers(sample, "value")) == types, "mismatch: values and types")
        require("label" not in sample, "labels of samples, which are lost")
    stacks = [tuple(numbers(sample, "location_id")) for sample in samples]
    require(len(set(stacks)) == len(stacks), "a stack is there twice")
    require(number(profile, "duration_nanos") > 0, "no delta: it would be a snapshot")


class ParcaStandIn(StandIn):
    content_type = "application/json"

    def take(self, path: str, headers, body: bytes) -> tuple:
        if self.status is not None:
            return self.status, '{"code":14,"message":"as the test wants","details":[]}'
        try:
            self.keep(path, headers, body)
        except (Refused, ValueError, KeyError, IndexError, OSError) as problem:
            self.refuse(problem)
            return 400, '{"code":3,"message":"refused","details":[]}'
        return 200, "{}"

    def keep(self, path: str, headers, body: bytes) -> None:
        require(path == "/api/profiles/writeraw", f"path {path}")
        require(headers["Content-Type"] == "application/json", "content type")
        self.check_headers(headers)
        require(len(body) < 4 << 20, "size of the body")
        request = has_members(json.loads(body, object_pairs_hook=unique_members), {"series", "normalized"})
        require(request["normalized"] in (True, False) and len(request["series"]) == 1, "number of series")
        series = has_members(request["series"][0], {"labels", "samples"})
        labels = check_labels(series)
        require(labels.pop("node", "") == labels.get("host"), "the label node, by which Parca lists agents")
        require(len(series["samples"]) == 1, "number of profiles")
        sample = has_members(series["samples"][0], {"rawProfile"})
        packed = base64.b64decode(sample["rawProfile"], validate=True)
        require(packed[:2] == b"\x1f\x8b", "a profile that is not packed")
        profile = decode("perftools.profiles.Profile", "profile.proto", gzip.decompress(packed))
        check_profile(profile)
        self.received.append((labels, profile))
