"""Loads, for the floor, cay and peers alike: what a create and a whole life take of the machine's processors."""
import pathlib
import time

import peers

SETTLE_S = 0.5  # for what goes on after the last answer, which is part of the price


def cpu_ms():
    """What all processes and the kernel have used of all processors; the clock's ticks are 10 ms."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _, _, irq, softirq = (int(field) for field in fields[:7])
    return (user + nice + system + irq + softirq) * 10


class Meter:
    """with Meter() as m: …, then m.ms. All that the machine does meanwhile counts, so on a busy one it is too much,
    and never too little."""

    def __enter__(self):
        self.used = cpu_ms()
        return self

    def __exit__(self, *_):
        time.sleep(SETTLE_S)
        self.ms = cpu_ms() - self.used


def peer_lives(peer, clients, seconds):
    """({row: values}, CPU in ms) of whole lives that a peer makes."""
    with Meter() as meter:
        rows = peers.lives(peer, clients, seconds)
    return rows, meter.ms


def peer_creates(peer, n):
    """CPU in ms of one of n boxes that a peer makes one after the other."""
    boxes = peer.boxes(n)
    with Meter() as meter:
        for box in boxes:
            box.create()
    for box in boxes:
        box.remove()
    return meter.ms / n
