"""PyTorch's CPU products behind the lines of protocol.h: F32, F16 and BF16, the activations in the same type, as a
model in that type has them. The one setting is `plain`."""

import sys
import time

import numpy
import torch

OUTPUTS = 8
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Torch:
    def __init__(self, dtype, out, inputs, count, weights, activations):
        raw = numpy.fromfile(weights, dtype=numpy.uint8)
        stored = torch.from_numpy(raw).view(TYPES[dtype])
        self.weights = list(stored.view(count, out, inputs))
        x = numpy.fromfile(activations, dtype=numpy.float32)
        self.x = torch.from_numpy(x).view(-1, inputs).to(TYPES[dtype])
        self.outputs = [torch.empty(out, inputs) for _ in range(OUTPUTS)]
        self.next = 0

    def multiply(self, rows):
        x = self.x[:rows]
        return lambda matrix: torch.nn.functional.linear(x, self.weights[matrix])

    def widen(self, matrix):
        self.outputs[matrix % OUTPUTS].copy_(self.weights[matrix])

    def timed(self, calls, groups, call):
        took = []
        for _ in range(groups):
            start = time.perf_counter_ns()
            for _ in range(calls):
                call(self.next)
                self.next = (self.next + 1) % len(self.weights)
            took.append((time.perf_counter_ns() - start) / calls)
        return " ".join(f"{t:.1f}" for t in took)

    def obey(self, words):
        match words:
            case ["matmul", rows, calls, groups]:
                return self.timed(int(calls), int(groups), self.multiply(int(rows)))
            case ["decode", calls, groups]:
                return self.timed(int(calls), int(groups), self.widen)
            case ["write", "matmul", rows, path]:
                self.multiply(int(rows))(0).float().numpy().tofile(path)
            case ["write", "decode", path]:
                self.widen(0)
                self.outputs[0].numpy().tofile(path)
            case _:
                return "none"
        return "done"


def main():
    dtype, out, inputs, count, weights, activations, threads, _ = sys.argv[1:]
    if dtype not in TYPES:
        print(f"none: torch has no {dtype}")
        return
    torch.set_num_threads(int(threads))
    torch.set_grad_enabled(False)
    peer = Torch(dtype, int(out), int(inputs), int(count), weights, activations)
    print(f"ready torch {torch.__version__}", flush=True)
    for line in sys.stdin:
        print(peer.obey(line.split()), flush=True)


main()
