"""Takes a lock with kazoo as it is told on its input: acquire, try, release, end. Arguments: HOSTS PATH mutex|read|write."""
import logging
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

logging.basicConfig(level=logging.CRITICAL)
client = KazooClient(hosts=sys.argv[1], timeout=10)
client.start()
if sys.argv[3] == "mutex":
    lock = client.Lock(sys.argv[2], extra_lock_patterns=("-lock-",))
elif sys.argv[3] == "read":
    lock = client.ReadLock(sys.argv[2], extra_lock_patterns=("__WRIT__",))
else:
    lock = client.WriteLock(sys.argv[2], extra_lock_patterns=("__WRIT__", "__READ__"))
print("ready", flush=True)
for line in sys.stdin:
    word = line.strip()
    if word == "end":
        break
    if word == "acquire":
        lock.acquire()
        print("held", flush=True)
    elif word == "try":
        try:
            print("held" if lock.acquire(timeout=0.3) else "refused", flush=True)
        except LockTimeout:
            print("refused", flush=True)
    else:
        lock.release()
        print("released", flush=True)
client.stop()
