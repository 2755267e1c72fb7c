#!/usr/bin/env python3
"""Measures scantling's kernels and their peers in turns, on the same tensors, in one run.

Every library loads the same bytes; in each round each of them works for a moment on the same product, and so do the
loops that tell what the machine can do, so that whatever else the machine is doing happens to all. Ratios are taken
within a round, and their median told with its quartiles. A peer counts with the setting that is best for the figure
at hand (repacked weights or not, huge pages or not).

Needs numpy. How the harnesses are built stands in docs/performance.md.
"""

import argparse
import datetime
import json
import platform
import sys
import time
from pathlib import Path

import numpy
from contestants import BLOCKS, PLAIN, Contestant, Entry, Files, Refused, Shape, spread, take_turns
from tables import render

HERE = Path(__file__).resolve().parent
FURTHEST = 0.02
DECODED = [t for t in BLOCKS if t not in ("F32", "Q8_1", "Q8_K")]  # ggml does not widen the last two, or make them


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="build folder of CMakeLists.txt")
    parser.add_argument("--ours", type=Path, help="the peer-scantling program; without it, the peers alone")
    parser.add_argument("--exact", default="avx2", help="leaf for F32, F16, BF16 and for decoding [avx2]")
    parser.add_argument("--fast", default="avx2-int8", help="leaf for quantised types [avx2-int8]")
    parser.add_argument("--spread", default="rayon", help="wrapper where there are several threads [rayon]")
    parser.add_argument("--also", default="", help="further kernels of ours to show, comma separated")
    parser.add_argument("--candle", type=Path, help="the peer-candle program")
    parser.add_argument("--torch", type=Path, help="a Python that has torch")
    parser.add_argument("--prebuilt", type=Path, help="folder of a prebuilt llama.cpp: harness and its CPU backend")
    parser.add_argument("--types", default="F32,F16,BF16,Q8_0,Q4_0,Q4_K,Q6_K")
    parser.add_argument("--rows", default="1,8,512", help="rows of activations [1,8,512]")
    parser.add_argument("--decode", default=",".join(DECODED), help="types to widen, or nothing")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--shape", default="3072x1024", help="outputs x inputs [3072x1024]")
    parser.add_argument("--memory", type=int, default=256, help="MiB of weights to go through [256]")
    parser.add_argument("--rounds", type=int, default=25, help="turns of each [25]")
    parser.add_argument("--milliseconds", type=float, default=15, help="of one turn [15]")
    parser.add_argument("--best", action="store_true", help="tell the best round, not the median: for a busy machine")
    parser.add_argument("--data", type=Path, default=Path("/tmp/scantling-peers"), help="where weights are kept")
    parser.add_argument("--json", type=Path, help="write all figures here as well")
    return parser.parse_args()


def listed(text, kind=str):
    return [kind(part) for part in text.split(",") if part]


def entries(args, dtype, threads):
    """All that take part for a type."""
    leaf = args.exact if dtype in PLAIN else args.fast
    for spec in [leaf, *listed(args.also)] if args.ours else []:
        spec = f"{args.spread}+{spec}" if threads > 1 and args.spread else spec
        yield Entry("ours", spec, (args.ours,), (spec,))
    for setting in ("plain", "repack"):
        for huge in (True, False):
            yield Entry("llama.cpp", setting, (args.build / "peer-ggml",), (setting,), huge)
    if args.prebuilt:
        plugin = (("GGML_PLUGIN", str(next(args.prebuilt.glob("libggml-cpu-*.so")))),)
        for setting in ("plain", "repack"):
            yield Entry("llama.cpp", f"prebuilt {setting}", (args.prebuilt / "peer-ggml",), (setting,), True, plugin)
    if args.candle:
        yield Entry("candle", "plain", (args.candle,), ("plain",))
    if args.torch and dtype in PLAIN:
        yield Entry("torch", "plain", (args.torch, HERE / "torch_peer.py"), ("plain",))


def start_all(args, files, shape, threads, which):
    weights, x = files.weights(shape), files.activations(shape.inputs)
    files.forget(weights)
    running = []
    for entry in which:
        what = [shape.dtype, shape.out, shape.inputs, shape.count, weights, x, threads, *entry.last]
        try:
            contestant = Contestant.start(entry, what, threads)
        except Refused as why:
            print(f"  {entry.name}: {why}", file=sys.stderr)
            continue
        if entry.side == "ours":
            # It maps the file, and is the first to read it: the pages are as its own mapping asks for them.
            contestant.times(f"matmul 1 {shape.count} 1")
        running.append(contestant)
    return running


def agreement(files, shape, running):
    """Relative RMS distance of each product of 8 rows from the product in f64 of the widened weights.

    Who is further off than rounding activations to 8 bits explains computes something else, and is left out.
    """
    w = decoded(files, shape, running)
    if w is None:
        raise SystemExit(f"nobody here widens {shape.dtype}: there is nothing to hold products against")
    x = numpy.fromfile(files.activations(shape.inputs), dtype="<f4").reshape(-1, shape.inputs)[:8].astype("f8")
    expected = x @ w.reshape(shape.out, shape.inputs).astype("f8").T
    distances, path = {}, files.folder / "product.bin"
    for c in running:
        try:
            c.ask(f"write matmul 8 {path}")
        except Refused as why:
            print(f"  {c.entry.name}: {why}", file=sys.stderr)
            continue
        found = numpy.fromfile(path, dtype="<f4").reshape(8, shape.out)
        distance = float(numpy.linalg.norm(found - expected) / numpy.linalg.norm(expected))
        if distance < FURTHEST:
            distances[c.entry] = distance
        else:
            print(f"  {c.entry.name} is left out: its product is off by {distance:.1%}", file=sys.stderr)
    for c in running:
        if c.entry not in distances:
            c.stop()
    running[:] = [c for c in running if c.entry in distances]
    return distances


def decoded(files, shape, running):
    """The first matrix, as the first harness that can widens it."""
    if shape.dtype == "F32":
        return numpy.fromfile(files.weights(shape), dtype="<f4", count=shape.out * shape.inputs)
    path = files.folder / "widened.bin"
    for c in running:
        try:
            c.ask(f"write decode {path}")
        except Refused:
            continue
        return numpy.fromfile(path, dtype="<f4")
    return None


def summary(values, best):
    """Median and quartiles, or the best of them alone."""
    return [best(values)] * 3 if best else spread(values)


def figures(shape, threads, work, samples, limits, running, distances, best):
    """One figure as plain data: what each contestant reached, and the ratios within rounds."""
    about = {c.entry: c for c in running}
    rows = [
        {
            "side": e.side, "setting": e.setting, "name": e.name, "about": about[e].about,
            "huge": about[e].huge_share(shape.bytes * shape.count),
            "nanoseconds": summary(times, best and min), "rounds": times, "distance": distances.get(e),
        }
        for e, times in samples.items()
    ]
    figure = {
        "dtype": shape.dtype, "out": shape.out, "in": shape.inputs, "count": shape.count, "bytes": shape.bytes,
        "threads": threads, "work": work, "contestants": rows,
        "limits": {name: summary([m[name] for m in limits], best and max) for name in limits[0]},
    }
    ours = next((r for r in rows if r["side"] == "ours"), None)
    peers = [r for r in rows if r["side"] != "ours"]
    for row in peers:
        if ours and best:
            row["ours_over_it"] = [min(row["rounds"]) / min(ours["rounds"])] * 3
        elif ours:
            row["ours_over_it"] = spread([p / o for p, o in zip(row["rounds"], ours["rounds"])])
    return figure


def meter(limits, names):
    return lambda: {name: limits.times(f"{name} 1")[0] for name in names}


def measure_products(args, files, shape, threads, limits):
    running = start_all(args, files, shape, threads, entries(args, shape.dtype, threads))
    try:
        distances = agreement(files, shape, running)
        for rows in listed(args.rows, int):
            samples, metered = take_turns(
                running, lambda calls: f"matmul {rows} {calls} 1", args.rounds, args.milliseconds * 1e6,
                meter(limits, ("read", "stream", "fma", "int8")),
            )
            yield figures(shape, threads, {"op": "matmul", "rows": rows}, samples, metered, running, distances, args.best)
    finally:
        for c in running:
            c.stop()


def measure_decoding(args, files, shape, threads, limits):
    ours = f"{args.spread}+{args.exact}" if threads > 1 and args.spread else args.exact
    which = [Entry("ours", ours, (args.ours,), (ours,))] if args.ours else []
    peers = [e for e in entries(args, shape.dtype, threads) if e.side != "ours"]
    which += [e for e in peers if e.huge and "repack" not in e.setting]
    running = start_all(args, files, shape, threads, which)
    try:
        wanted, distances = decoded(files, shape, running), {}
        for c in running:
            path = files.folder / "other.bin"
            try:
                c.ask(f"write decode {path}")
            except Refused:
                continue
            found = numpy.fromfile(path, dtype="<f4")
            distances[c.entry] = float(numpy.abs(found - wanted).max())
        samples, metered = take_turns(
            running, lambda calls: f"decode {calls} 1", args.rounds, args.milliseconds * 1e6, meter(limits, ("copy",))
        )
        yield figures(shape, threads, {"op": "decode"}, samples, metered, running, distances, args.best)
    finally:
        for c in running:
            c.stop()


def machine():
    names = [l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")]
    flags = next(l for l in open("/proc/cpuinfo") if l.startswith("flags")).split()
    seen = [f for f in ("avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16") if f in flags]
    return {"cpu": names[0], "cores": len(names), "features": seen, "system": platform.platform()}


def main():
    args = arguments()
    out, inputs = (int(n) for n in args.shape.split("x"))
    files = Files(args.data, args.build / "peer-ggml")
    files.folder.mkdir(parents=True, exist_ok=True)
    report = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(sys.argv), "best": args.best, "machine": machine(), "figures": [],
    }
    for threads in listed(args.threads, int):
        limits = Contestant.start(Entry("machine", "limits", (args.build / "limits",), ()), [threads], threads)
        jobs = [(measure_products, t) for t in listed(args.types) if listed(args.rows)]
        jobs += [(measure_decoding, t) for t in listed(args.decode)]
        for job, dtype in jobs:
            began = time.monotonic()
            print(f"{dtype}, {threads} thread(s), {job.__name__} …", file=sys.stderr)
            # Widening writes more than it reads: fewer matrices are enough to be past the caches.
            memory = args.memory if job is measure_products else args.memory // 4
            report["figures"] += job(args, files, Shape.of(dtype, out, inputs, memory), threads, limits)
            if args.json:
                args.json.write_text(json.dumps(report, indent=1))
            print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr)
        limits.stop()
    print(render(report))


if __name__ == "__main__":
    main()
