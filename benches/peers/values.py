#!/usr/bin/env python3
"""Measures `stats`, `diff` and `hash` in turns with numpy on the same files, which gguf-py or a memory map of the
safetensors file gives it: the same figures of every tensor, each as a whole process.

In each round all contestants run one after the other. So does what the machine allows: mapped.c beside this file, built
with `cc`, which does nothing but read the same files on as many threads; and for `hash` SHA-256 as `openssl speed`
has it on so many cores. Rates are bytes of files a second. Called with --peer it is the peer itself.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median


def safetensors(path):
    """Names, types and bytes of the tensors of a file or of a folder's one file."""
    import numpy as np

    path = path / "model.safetensors" if path.is_dir() else path
    data = np.memmap(path, dtype=np.uint8, mode="r")
    length = int.from_bytes(bytes(data[:8]), "little")
    header = json.loads(bytes(data[8 : 8 + length]))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        begin, end = (8 + length + at for at in entry["data_offsets"])
        yield name, entry["dtype"], data[begin:end], None


def gguf(path):
    from gguf import GGUFReader

    for tensor in GGUFReader(path).tensors:
        yield tensor.name, tensor.tensor_type.name, tensor.data.reshape(-1).view("u1"), tensor


def tensors(path):
    return gguf(path) if path.suffix == ".gguf" else safetensors(path)


def numbers(kind, raw, tensor):
    """As f32."""
    import numpy as np

    if kind == "BF16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if kind in ("F32", "F16"):
        return raw.view({"F32": "<f4", "F16": "<f2"}[kind]).astype(np.float32)
    from gguf.quants import dequantize

    return dequantize(tensor.data, tensor.tensor_type).reshape(-1)


def peer_stats(paths, threads):
    import numpy as np

    def one(item):
        _, kind, raw, tensor = item
        x = numbers(kind, raw, tensor)
        mean = x.mean(dtype=np.float64)
        return x.min(), x.max(), mean, x.std(dtype=np.float64), np.abs(x).max(), (x == 0).sum(), (~np.isfinite(x)).sum()

    with ThreadPoolExecutor(threads) as pool:
        return len(list(pool.map(one, tensors(paths[0]))))


def peer_diff(paths, threads):
    import numpy as np

    other = {name: (kind, raw, tensor) for name, kind, raw, tensor in tensors(paths[1])}

    def one(item):
        name, kind, raw, tensor = item
        if name not in other:
            return None
        a, b = numbers(kind, raw, tensor), numbers(*other[name])
        d = (b - a).astype(np.float64)
        aa, bb = (np.dot(x.astype(np.float64), x.astype(np.float64)) for x in (a, b))
        return np.abs(d).max(), np.sqrt(np.dot(d, d) / len(d)), np.dot(a.astype(np.float64), b) / np.sqrt(aa * bb)

    with ThreadPoolExecutor(threads) as pool:
        return len([found for found in pool.map(one, tensors(paths[0])) if found])


def peer_hash(paths, threads):
    def one(item):
        return hashlib.sha256(item[2]).hexdigest()

    with ThreadPoolExecutor(threads) as pool:
        return len(list(pool.map(one, tensors(paths[0]))))


def size(path):
    path = path / "model.safetensors" if path.is_dir() else path
    return path.stat().st_size


def seconds(command):
    began = time.perf_counter()
    done = subprocess.run([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    took = time.perf_counter() - began
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return took


def built(folder):
    """The program that only reads, or None where it cannot be built."""
    source, program = Path(__file__).with_name("mapped.c"), Path(folder) / "mapped"
    compiler = shutil.which("cc")
    if not compiler:
        return None
    subprocess.run([compiler, "-O2", "-mavx2", "-pthread", "-o", program, source], check=True)
    return program


def openssl_rate(threads):
    """Bytes a second that OpenSSL digests on so many cores, or None."""
    command = ["openssl", "speed", "-multi", str(threads), "-evp", "sha256", "-bytes", "1048576", "-seconds", "1"]
    if not shutil.which(command[0]):
        return None
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"^sha256\s+([0-9.]+)k", done.stdout, re.MULTILINE)
    return float(found[1]) * 1000 if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["stats", "diff", "hash"])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="one, or two to be compared")
    parser.add_argument("--ours", type=Path, help="the scantling program")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-peer", action="store_true", help="hold it against the limit alone")
    parser.add_argument("--peer", action="store_true", help="be the peer")
    args = parser.parse_args()
    if args.peer:
        print({"stats": peer_stats, "diff": peer_diff, "hash": peer_hash}[args.what](args.models, args.threads))
        return
    files = [path / "model.safetensors" if path.is_dir() else path for path in args.models]
    contestants = {"ours": [args.ours, args.what, *args.models, "--threads", args.threads, "-q"]}
    if not args.no_peer:
        contestants["peer"] = [sys.executable, __file__, args.what, *args.models, "--threads", args.threads, "--peer"]
    with tempfile.TemporaryDirectory() as folder:
        if reader := built(folder):
            contestants["reading"] = [reader, args.threads, *files]
        took, digests = {name: [] for name in contestants}, []
        for _ in range(args.rounds):
            for name, command in contestants.items():
                took[name].append(seconds(command))
            if args.what == "hash":
                digests.append(openssl_rate(args.threads))
    total = sum(size(path) for path in args.models)
    for name, each in took.items():
        print(f"{args.what} {name}: {median(each):.3f} s, {total / median(each) / 1e9:.2f} GB/s")

    def shares(other):
        return median(o / u for u, o in zip(took["ours"], took[other]))

    if "reading" in took:
        print(f"{args.what}: {shares('reading'):.0%} of what a plain reading of these files reaches")
    if digests and None not in digests:
        share = median(total / u / rate for u, rate in zip(took["ours"], digests))
        print(f"{args.what}: {share:.0%} of OpenSSL's {median(digests) / 1e9:.2f} GB/s in memory")
    if "peer" in took:
        print(f"{args.what}: {shares('peer'):.1f} times as fast as the peer")


if __name__ == "__main__":
    main()
