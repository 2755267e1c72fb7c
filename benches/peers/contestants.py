"""Processes that multiply, and what is known about them: started on the same files, pinned, driven line by line."""

import os
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

# Element types as (elements, bytes) of a block; the names are those of every harness.
BLOCKS = {
    "F32": (1, 4), "F16": (1, 2), "BF16": (1, 2),
    "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34), "Q8_1": (32, 36),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
    "Q8_K": (256, 292),
    "IQ1_S": (256, 50), "IQ1_M": (256, 56), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74), "IQ2_S": (256, 82),
    "IQ3_XXS": (256, 98), "IQ3_S": (256, 110), "IQ4_NL": (32, 18), "IQ4_XS": (256, 136),
    "TQ1_0": (256, 54), "TQ2_0": (256, 66), "MXFP4": (32, 17), "NVFP4": (64, 36), "Q1_0": (128, 18), "Q2_0": (64, 18),
}
PLAIN = ("F32", "F16", "BF16")
ACTIVATION_ROWS = 512
PAUSE = 0.012  # seconds


@dataclass(frozen=True)
class Shape:
    """Matrices of one type: enough of them, together, that their bytes come from memory each time."""

    dtype: str
    out: int
    inputs: int
    count: int

    @staticmethod
    def of(dtype, out, inputs, mebibytes):
        elements, size = BLOCKS[dtype]
        each = out * inputs // elements * size
        return Shape(dtype, out, inputs, max(2, -(-mebibytes * 2**20 // each)))

    @property
    def bytes(self):
        elements, size = BLOCKS[self.dtype]
        return self.out * self.inputs // elements * size


@dataclass
class Files:
    """Where the weights and activations of a run lie; made by the ggml harness, with its own quantisers."""

    folder: Path
    maker: Path

    def weights(self, shape):
        path = self.folder / f"{shape.dtype}-{shape.out}x{shape.inputs}x{shape.count}.bin"
        if not path.exists():
            self._make(path, shape.dtype, shape.out, shape.inputs, shape.count, seed=1)
        return path

    def activations(self, inputs):
        path = self.folder / f"x-{inputs}.bin"
        if not path.exists():
            self._make(path, "F32", ACTIVATION_ROWS, inputs, 1, seed=7)
        return path

    def _make(self, path, *what, seed):
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        subprocess.run([self.maker, "make", *map(str, what), str(seed), unfinished], check=True)
        unfinished.rename(path)

    @staticmethod
    def forget(path):
        """Drops a file from the page cache, so that whoever maps it first decides on its page size."""
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@dataclass(frozen=True)
class Entry:
    """One way to run one library."""

    side: str  # "ours" or the peer's name
    setting: str
    command: tuple
    last: tuple  # what it is given behind the arguments that all harnesses share
    huge: bool = True
    env: tuple = ()

    @property
    def name(self):
        return f"{self.side} {self.setting}" + ("" if self.huge or self.side == "ours" else " 4k")


class Refused(Exception):
    """A library does not do what it was asked to."""


@dataclass
class Contestant:
    """A running harness."""

    entry: Entry
    process: subprocess.Popen
    about: str

    @staticmethod
    def start(entry, arguments, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), RAYON_NUM_THREADS=str(threads))
        if entry.huge:
            # glibc then asks for huge pages wherever it takes memory: a setting anybody can choose.
            env["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
        env.update(entry.env)
        cpus = ",".join(str(c) for c in sorted(os.sched_getaffinity(0))[:threads])
        process = subprocess.Popen(
            ["taskset", "-c", cpus, *map(str, entry.command), *map(str, arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
        )
        first = process.stdout.readline().strip()
        if not first.startswith("ready"):
            process.stdin.close()
            process.wait()
            raise Refused(first or f"{entry.name} ended with {process.returncode}")
        return Contestant(entry, process, first.removeprefix("ready").strip())

    def ask(self, line):
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise RuntimeError(f"{self.entry.name} ended in \"{line}\" with {self.process.wait()}")
        if answer.startswith("none"):
            raise Refused(answer)
        return answer

    def times(self, line):
        """Of a line of work. Begins when whoever worked before has stopped waiting for more: idle threads spin for
        some milliseconds before they sleep."""
        time.sleep(PAUSE)
        return [float(t) for t in self.ask(line).split()]

    def huge_share(self, held):
        """Of so many bytes of weights, how many can be on huge pages by what the process has of them."""
        sums = {}
        for line in Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()[1:]:
            key, value = line.split(":")
            sums[key] = int(value.split()[0]) * 1024
        return min(1.0, (sums["AnonHugePages"] + sums.get("FilePmdMapped", 0)) / held)

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def take_turns(contestants, line, rounds, target_ns, meter=None):
    """Rounds in which each contestant works for about `target_ns` on one line of work, in rotating order.

    `line` makes the line from a number of calls. Gives nanoseconds a call of each contestant, by round, and what
    the meter said in each round.
    """
    calls, taking_part = {}, []
    for c in contestants:
        try:
            c.times(line(2))
            once = min(c.times(line(2)))
        except Refused:
            continue
        calls[c.entry] = max(1, round(target_ns / once))
        taking_part.append(c)
    samples = {c.entry: [] for c in taking_part}
    metered = []
    for i in range(rounds):
        if meter is not None:
            metered.append(meter())
        turn = i % max(1, len(taking_part))
        for c in taking_part[turn:] + taking_part[:turn]:
            samples[c.entry] += c.times(line(calls[c.entry]))
    return samples, metered


def spread(values):
    """Median and quartiles."""
    if len(values) < 2:
        return [values[0]] * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return [middle, low, high]
