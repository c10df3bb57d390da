"""Windows with services that are more than an engine takes in one profile, in protobuf's text form."""

import json

from daemon_stand_in import Texts

PERIOD_NS = 10
MANY, LONG, FEW, DEEP = "many", "long", "few", "deep"
# Of the service MANY: more than the 8,000 stacks of a profile. With its inner nodes, the tree of all has less than the 8,192
# nodes that an engine may cut the answer of a query to.
PARENTS, LEAVES = 81, 100
# Of the service LONG: more than the 1 MiB of a profile.
LONG_NAMES, LONG_NAME_BYTES = 3000, 600
DEEP_FRAMES = 1500


class WindowText:
    def __init__(self):
        self.texts = Texts()
        self.functions = {}
        self.samples = []

    def add(self, comm: str, pid: int, stack: list, count: int) -> None:
        """`stack`: names, the innermost first."""
        place = self.texts.place
        pairs = {"comm": comm, "unit": "-", "container": "-", "pod": "-", "user": "bob", "runtime": "-"}
        labels = " ".join(f"label {{ key: {place(key)} str: {place(text)} }}" for key, text in pairs.items())
        ids = " ".join(f"location_id: {self.functions.setdefault(name, len(self.functions) + 1)}" for name in stack)
        self.samples.append(f"sample {{ {ids} value: {count} value: {count * PERIOD_NS} {labels} "
                            f"label {{ key: {place('pid')} num: {pid} }} }}")

    def text(self) -> str:
        """Without a time."""
        place = self.texts.place
        lines = [f"sample_type {{ type: {place(kind)} unit: {place(unit)} }}"
                 for kind, unit in (("samples", "count"), ("cpu", "nanoseconds"))]
        lines.append(f"period_type {{ type: {place('cpu')} unit: {place('nanoseconds')} }} period: {PERIOD_NS}")
        lines.append(f"duration_nanos: {60 * 10**9}")
        lines.append(f"mapping {{ id: 1 memory_limit: {1 << 30} filename: {place('/usr/bin/program')} has_functions: true }}")
        for name, one in self.functions.items():
            lines.append(f"location {{ id: {one} mapping_id: 1 address: {one} line {{ function_id: {one} }} }}")
            lines.append(f"function {{ id: {one} name: {place(name)} system_name: {place(name)} }}")
        lines.extend(self.samples)
        lines.extend(f"string_table: {json.dumps(text)}" for text in self.texts.places)
        return "\n".join(lines)


def split_window_text(has_deep_stack: bool) -> str:
    window = WindowText()
    for parent in range(PARENTS):
        for leaf in range(LEAVES):
            window.add(MANY, 1, [f"leaf_{leaf}", f"parent_{parent}"], 1 + (parent + leaf) % 3)
    for one in range(LONG_NAMES):
        window.add(LONG, 2, [f"function_{one}_".ljust(LONG_NAME_BYTES, "x"), "main"], 1)
    for one in range(10):
        window.add(FEW, 3, [f"function_{one}", "main"], 1 + one)
    if has_deep_stack:
        window.add(DEEP, 4, [f"frame_{one % 50}" for one in range(DEEP_FRAMES)], 5)
    return window.text()
