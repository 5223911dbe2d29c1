"""kazoo's Lock in the scenarios of the benchmark.

pairs THREADS MS: prints pairs a second. drain THREADS, hot THREADS MS: prints "asked", then the counts.
"""
import logging
import os
import sys
import threading
import time

from kazoo.client import KazooClient

logging.basicConfig(level=logging.CRITICAL)
client = KazooClient(hosts=sys.argv[1], timeout=10)
client.start()


def run(threads, work):
    all_ = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for thread in all_:
        thread.start()
    return all_


def pairs(threads, seconds):
    counts = [0] * threads
    start = time.monotonic()
    until = start + seconds

    def work(i):
        lock = client.Lock("/kazoo/pairs-%d" % i)
        while time.monotonic() < until:
            lock.acquire()
            lock.release()
            counts[i] += 1

    for thread in run(threads, work):
        thread.join()
    return sum(counts) / (time.monotonic() - start)


def warm_up():
    """As in bench/scenarios.ts."""
    take_in_turns(1, 1, 0.5)
    take_in_turns(8, 2, 1)


def take_in_turns(names, each, seconds):
    until = time.monotonic() + seconds

    def work(i):
        lock = client.Lock("/kazoo/warm-%d-%d" % (os.getpid(), i % names))
        while time.monotonic() < until:
            lock.acquire()
            lock.release()

    for thread in run(names * each, work):
        thread.join()


def waiters(path, threads, seconds):
    warm_up()
    print("ready", flush=True)
    sys.stdin.readline()
    counts = [0] * threads
    until = time.monotonic() + seconds

    def work(i):
        lock = client.Lock(path, extra_lock_patterns=("-lock-",))
        while True:
            lock.acquire()
            if seconds == 0:
                time.sleep(0.001)
            counts[i] += 1
            lock.release()
            if time.monotonic() >= until:
                return

    all_ = run(threads, work)
    print("asked", flush=True)
    for thread in all_:
        thread.join()
    print("counts", *counts, flush=True)


scenario, threads = sys.argv[2], int(sys.argv[3])
if scenario == "pairs":
    ms = float(sys.argv[4])
    pairs(threads, ms / 2000)
    print(pairs(threads, ms / 1000), flush=True)
elif scenario == "drain":
    waiters("/kazoo/drain", threads, 0)
else:
    waiters("/kazoo/hot", threads, float(sys.argv[4]) / 1000)
client.stop()
