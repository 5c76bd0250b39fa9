"""What waiting threads cost, on a machine at rest and on a busy one: `python benchmarks/threads.py`.

Each line is the median time of a caption by the shipped soft model with PyTorch, in a process of its own. (ONNX Runtime
is told by its sessions how to wait, and not by these settings.) On a busy machine, a busy loop runs beside it on every
core. The first way is the runtime's own (threads wait in a busy loop), the second is what this package sets (threads
sleep while they wait), and the third is one thread.
"""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

PHOTO = Path(__file__).parent.parent / "examples" / "dogs.jpg"
CAPTION = f"""
import sys, time
from show_attend_tell import Captioner
captioner = Captioner.from_pretrained("flickr8k-soft", device="cpu", backend="torch")
times = []
for turn in range(1 + int(sys.argv[1])):
    began = time.perf_counter()
    captioner({str(PHOTO)!r})
    times.append(time.perf_counter() - began)
print(*times[1:])  # the first warms up
"""
WAYS = {
    "busy loop": {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "300000"},  # the GNU runtime's default count
    "asleep": {"OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},  # of two numbers PyTorch takes MKL's
}


def seconds(settings: dict[str, str], repeats: int = 5) -> list[float]:
    """The times of a caption in a process with those settings."""
    command, environment = [sys.executable, "-c", CAPTION, str(repeats)], {**os.environ, **settings}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return list(map(float, done.stdout.split()))


def main() -> None:
    for state, loops in (("at rest", 0), ("busy", os.cpu_count() or 1)):
        compare = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
        try:
            for way, settings in WAYS.items():
                print(f"{state}, {way}: {median(seconds(settings)):.2f} s a caption", flush=True)
        finally:
            for process in compare:
                process.kill()


if __name__ == "__main__":
    main()
