"""A bad cable between two tap devices, for kernels without netem: frames are lost, and take their time.

cable.py TAP TAP DELAY_MS JITTER_MS LOSS_PERCENT SEED: makes both devices, says "ready", and ends with its standard input.
"""

import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time

# linux/if_tun.h
TUNSETIFF = 0x400454CA
IFF_TAP = 0x0002
IFF_NO_PI = 0x1000
MOST_WAITING = 20_000


def open_tap(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return fd


def main():
    first, second = open_tap(sys.argv[1]), open_tap(sys.argv[2])
    delay, jitter = float(sys.argv[3]) / 1000, float(sys.argv[4]) / 1000
    loss, chance = float(sys.argv[5]) / 100, random.Random(int(sys.argv[6]))
    other = {first: second, second: first}
    waiting, count, last = [], 0, {first: 0.0, second: 0.0}
    print("ready", flush=True)
    while True:
        pause = None if not waiting else max(0, waiting[0][0] - time.monotonic())
        readable, _, _ = select.select([first, second, 0], [], [], pause)
        if 0 in readable:
            return
        for fd in readable:
            for _ in range(64):
                try:
                    frame = os.read(fd, 65536)
                except OSError:
                    break
                if chance.random() < loss or len(waiting) > MOST_WAITING:
                    continue
                # In order, as on one link.
                last[fd] = max(last[fd], time.monotonic() + delay + chance.uniform(-jitter, jitter))
                count += 1
                heapq.heappush(waiting, (last[fd], count, other[fd], frame))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, to, frame = heapq.heappop(waiting)
            try:
                os.write(to, frame)
            except OSError:
                pass  # The device is down, or its queue is full: lost, as on a link.


main()
