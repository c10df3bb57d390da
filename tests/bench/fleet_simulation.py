#!/usr/bin/python3
"""What an engine must take of a fleet: requests, bytes and series, by second; and how a fleet comes back after an outage.

    tests/bench/fleet_simulation.py [--hosts 10000] [--check]

The sizes of windows are measured (docs/fleet.md says where); all else is computed. The turns of hosts and the pauses
are those of ctl/ship/send_turn.cc, ctl/ship/transport/push_outcome.cc and ctl/ship/endpoint_shipper.cc, but for halves,
which are more requests of fewer bytes. --check fails where the load of a second is over 1.2 times the mean, or where a
fleet does not come back. Deterministic.
"""

import argparse
import heapq
import random
import sys

WINDOW_S = 60
SPREAD_S = WINDOW_S / 10     # of the requests of a window
MAX_AGE_S = 55 * 60          # of what Pyroscope takes
HOST_RATE = 3e6              # bytes a second that one host sends, not packed
TENANT_RATE = 4e6            # Pyroscope's default, on unpacked bytes
TENANT_BURST = 2e6
BACKOFF_S = (0.5, 300)       # the first and the longest
RETRY_AFTER_S = 1            # of a 429 without the header
IDLE_BYTES, BUSY_BYTES = 20e3, 146e3   # packed, of a window at 19 Hz
UNPACKED = 555 / 146
PROFILES = (8, 30)           # series of a host
OUTAGE_S = 3600
PEAK = 1.2
TENANTS = (250, 500)         # hosts of a tenant, for the outage

# The same as in tests/ctl/ship/send_turn_test.cc.
KNOWN_PHASES = {"": 0.20634451574987855, "web-1": 0.6921805274807157, "host-0": 0.4836057145211442,
                "node-17.example.org": 0.8003166864605059}


def fold(a: int, b: int) -> int:
    product = a * b
    return (product ^ (product >> 64)) & ((1 << 64) - 1)


def phase(host: str) -> float:
    """send_phase(): SeededHash with the seed 0."""
    first, second = 0xa0761d6478bd642f, 0xe7037ed1a0b428db
    name = host.encode()
    state = fold(first ^ len(name), second)
    for at in range(0, len(name), 8):
        state = fold(state ^ int.from_bytes(name[at:at + 8], "little"), second)
    return (fold(state, first) >> 11) / (1 << 53)


class Host:
    def __init__(self, name: str, chance: random.Random):
        self.turn = phase(name) * WINDOW_S
        self.packed = IDLE_BYTES * (BUSY_BYTES / IDLE_BYTES) ** chance.random()
        self.profiles = chance.randint(*PROFILES)


def load_by_second(hosts: list, spread: float) -> tuple:
    """Requests and packed bytes in each second of a window's length. All lengths are alike."""
    requests, packed = [0] * WINDOW_S, [0.0] * WINDOW_S
    for host in hosts:
        for i in range(host.profiles):
            second = int(host.turn + spread * i / host.profiles) % WINDOW_S
            requests[second] += 1
            packed[second] += host.packed / host.profiles
    return requests, packed


def peak_over_mean(load: list) -> float:
    return max(load) / (sum(load) / len(load))


class Bucket:
    """The rate limit of a tenant. None is taken while the engine is away."""

    def __init__(self):
        self.tokens = TENANT_BURST
        self.time = 0.0

    def takes(self, now: float, count: float) -> bool:
        self.tokens = min(TENANT_BURST, self.tokens + (now - self.time) * TENANT_RATE)
        self.time = now
        if now < OUTAGE_S or self.tokens < count:
            return False
        self.tokens -= count
        return True


class Sender:
    """A host with a queue: its next profile, and the failures one after the other."""

    def __init__(self, host: Host):
        self.host = host
        self.window = 0  # number of the oldest one that is not sent; it ended at window * WINDOW_S
        self.sent = 0    # profiles of it
        self.failures = 0
        self.dropped = 0

    def next_profile(self, now: float) -> float:
        """The time at which it may be sent."""
        host = self.host
        while now - self.window * WINDOW_S > MAX_AGE_S - WINDOW_S:
            self.dropped += host.profiles - self.sent
            self.sent = 0
            self.window += 1
        return max(now, self.window * WINDOW_S + host.turn + SPREAD_S * self.sent / host.profiles)

    def after(self, is_taken: bool, now: float, chance: random.Random) -> float:
        """The time of the next try."""
        if is_taken:
            self.failures = 0
            self.sent += 1
            if self.sent == self.host.profiles:
                self.sent = 0
                self.window += 1
            return self.next_profile(now + self.bytes() / HOST_RATE)
        least, most = BACKOFF_S
        pause = min(most, least * 2 ** min(self.failures, 16)) * chance.random()
        self.failures += 1
        return max(now + max(pause, RETRY_AFTER_S if now >= OUTAGE_S else 0), self.next_profile(now))

    def bytes(self) -> float:
        return self.host.packed * UNPACKED / self.host.profiles


class Return:
    """The way back of one tenant's hosts, until each has at most the window of its turn to send."""

    def __init__(self, hosts: list, chance: random.Random):
        self.senders = [Sender(host) for host in hosts]
        self.requests = {}     # by second
        self.recovered = None  # seconds after the outage
        self.run(chance)

    def run(self, chance: random.Random) -> None:
        bucket = Bucket()
        events = [(sender.next_profile(0.0), i) for i, sender in enumerate(self.senders)]
        heapq.heapify(events)
        behind = len(self.senders)
        is_behind = [True] * behind
        while behind > 0 and events[0][0] < OUTAGE_S + 4 * 3600:
            now, i = heapq.heappop(events)
            sender = self.senders[i]
            second = int(now)
            self.requests[second] = self.requests.get(second, 0) + 1
            following = sender.after(bucket.takes(now, sender.bytes()), now, chance)
            if is_behind[i] and now > OUTAGE_S and now - sender.window * WINDOW_S < 2 * WINDOW_S:
                is_behind[i] = False
                behind -= 1
            heapq.heappush(events, (following, i))
        if behind == 0:
            self.recovered = now - OUTAGE_S

    def dropped_windows(self) -> float:
        return sum(sender.dropped / sender.host.profiles for sender in self.senders) / len(self.senders)

    def peak_requests(self) -> int:
        return max(count for second, count in self.requests.items() if second >= OUTAGE_S)


def report(hosts: list, backs: list) -> None:
    requests, packed = load_by_second(hosts, SPREAD_S)
    not_spread = [f"{peak_over_mean(load):.2f}" for load in load_by_second(hosts, 0)]
    total = sum(packed)
    unpacked = total * UNPACKED
    per_tenant = TENANT_RATE / (unpacked / WINDOW_S / len(hosts))
    print(f"{len(hosts)} hosts, a window of {WINDOW_S} s each, {total / len(hosts) / 1e3:.0f} KB packed on average")
    print(f"requests/s: {sum(requests) / WINDOW_S:.0f}, peak {max(requests)} = {peak_over_mean(requests):.2f} of the mean; "
          f"without turns all {sum(requests)} of a window in the first second")
    print(f"MB/s: {total / WINDOW_S / 1e6:.1f} packed, {unpacked / WINDOW_S / 1e6:.1f} unpacked, "
          f"{total * 4 / 3 / WINDOW_S / 1e6:.1f} in Parca's base 64; peak {peak_over_mean(packed):.2f} of the mean")
    print(f"with turns, but without a pause between the requests of a host, the peaks would be {' and '.join(not_spread)}")
    print(f"series: {sum(host.profiles for host in hosts)}")
    print(f"a tenant's {TENANT_RATE / 1e6:.0f} MB/s are for {per_tenant:.0f} hosts at most")
    print(f"to keep: {total * 1440 / 1e9:.0f} GB a day as sent, {total * 1440 * 14 / 1e12:.1f} TB for 14 days")
    for back in backs:
        caught_up = "never" if back.recovered is None else f"after {back.recovered / 60:.0f} min"
        print(f"outage of {OUTAGE_S // 60} min, {len(back.senders)} hosts of a tenant: all have caught up {caught_up}; "
              f"{back.dropped_windows():.1f} windows of a host are too old; peak {back.peak_requests()} requests/s")


def check_return(back: Return) -> list:
    hosts = len(back.senders)
    failures = []
    if back.recovered is None or back.recovered > 2 * 3600:
        failures.append(f"{hosts} hosts do not come back")
    # What is over the age when the engine is back, and what gets there while others are served.
    if back.dropped_windows() > (OUTAGE_S - MAX_AGE_S) / WINDOW_S + 10:
        failures.append(f"{hosts} hosts: {back.dropped_windows():.1f} windows are lost")
    return failures


def check(hosts: list) -> list:
    failures = []
    for host, known in KNOWN_PHASES.items():
        if phase(host) != known:
            failures.append(f"the phase of {host!r} is {phase(host)!r}")
    for name, load in zip(("requests", "bytes"), load_by_second(hosts, SPREAD_S)):
        if peak_over_mean(load) > PEAK:
            failures.append(f"{name}: the peak over the mean is {peak_over_mean(load):.3f}")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=10000)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    chance = random.Random(1)
    hosts = [Host(f"host-{i}", chance) for i in range(options.hosts)]
    backs = [Return(hosts[:count], chance) for count in TENANTS]
    report(hosts, backs)
    if not options.check:
        return 0
    failures = check(hosts)
    for back in backs:
        failures += check_return(back)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
