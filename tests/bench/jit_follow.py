"""What following a live jitdump costs."""

import json
import subprocess

from harness import Bench, row


def following(bench: Bench) -> None:
    for loads in (100, 10_000):
        output = subprocess.run([str(bench.profd_binary.parent / "jit_follow_bench"), str(loads), "10"], check=True,
                                capture_output=True, text=True).stdout
        cost = json.loads(output)
        percent = cost["own_percent"] + cost["parser_percent"]
        row(f"following a jitdump, {loads} LOADs a second, % of a core", f"{percent:.2f}", "-", "<= 1")
        row("  of that in the parser", f"{cost['parser_percent']:.2f}", "-")
