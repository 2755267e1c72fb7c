#!/usr/bin/env python3
"""Measures whole models in turns with llama.cpp: the same GGUF file, the same threads, in one run.

In each round ours and llama.cpp, with repacked weights and without, run one after the other, in an order that rotates:
a prompt, tokens one by one, and, each as a whole process, the first token of a prompt of 16. A ratio is taken within a
round, to the better of llama.cpp's two settings over all rounds; told are the median and the quartiles.
How models and the harness are made stands in docs/performance.md.
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from statistics import median, quantiles

SIXTEEN = "one two three four five six seven eight nine ten red blue green white black grey"
PEERS = {"llama.cpp": 0, "llama.cpp, repacked": 1}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="GGUF files")
    parser.add_argument("--ours", required=True, type=Path, help="the scantling program")
    parser.add_argument("--peer", required=True, type=Path, help="the peer-llama program")
    parser.add_argument("--libraries", default="", help="folder of ggml's CPU libraries, where they are not linked in")
    parser.add_argument("--exact", default="BF16,F16,F32", help="types in the names of files that run as `exact`")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-p", type=int, default=512, help="tokens of the prompt [512]")
    parser.add_argument("-n", type=int, default=64, help="tokens that are written [64]")
    parser.add_argument("--depth", type=int, default=0, help="tokens that are there before [0]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write all figures here as well")
    return parser.parse_args()


class Failed(Exception):
    """A program that did not do what it was asked to."""


def run(command, watch=True):
    """Its output, its seconds, and, if it is watched, the most memory of its own, in bytes, that it was seen to have."""
    began, most = time.perf_counter(), 0
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while watch and process.poll() is None:
        most = max(most, anonymous(process.pid))
        time.sleep(0.005)
    out, err = process.communicate()
    seconds = time.perf_counter() - began
    if process.returncode:
        raise Failed(f"{' '.join(map(str, command))}: exit code {process.returncode}\n{err}")
    return out, seconds, most


def anonymous(pid):
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:")]
    return found[0] if found else 0


def ours(args, model):
    kernel = "exact" if any(t in model.name for t in args.exact.split(",")) else "fast"
    common = ["--kernel", kernel, "--threads", args.threads]
    out, _, most = run([args.ours.resolve(), "bench", model, *common, "-p", args.p, "-n", args.n, "-r", 1, "--depth", args.depth, "--json"])
    measured = json.loads(out)["runs"][0]
    figures = {"memory": most - measured["cache_bytes"], "kernel": measured["kernel"]}
    for test in measured["tests"]:
        what = test["test"][:2]
        figures |= {what: test["tokens_per_second"], f"{what} share": (test["share"], test["limit"])}
    if not args.depth:
        figures["first"] = run([args.ours.resolve(), "generate", model, *common, "--prompt", SIXTEEN, "-n", 1], watch=False)[1]
    return figures


def peer(args, model, repack):
    def call(prompt, new, repetitions, depth, watch):
        shape = [prompt, new, repetitions, repack, depth]
        return run([args.peer.resolve(), args.libraries, model, args.threads, *shape], watch)

    out, _, most = call(args.p, args.n, 1, args.depth, True)
    figures = {**json.loads(out.splitlines()[-1]), "memory": most}
    if not args.depth:
        figures["first"] = call(16, 0, 0, 0, False)[1]
    return figures


def measure(args, model):
    contestants = {"scantling": lambda: ours(args, model)}
    contestants |= {name: (lambda repack=repack: peer(args, model, repack)) for name, repack in PEERS.items()}
    names, rounds = list(contestants), []
    for i in range(args.rounds):
        turn = names[i % len(names):] + names[: i % len(names)]
        rounds.append({name: contestants[name]() for name in turn})
        print(f"{model.name}: round {i + 1} of {args.rounds}", file=os.sys.stderr)
    return rounds


def spread(values):
    """Median, and the quartiles where there are enough for them."""
    if len(values) < 3:
        return median(values), min(values), max(values)
    first, _, third = quantiles(values, n=4, method="inclusive")
    return median(values), first, third


def table(args, all_rounds):
    at = f" behind {args.depth}" if args.depth else ""
    rows = [("tg", f"{args.n} tokens written{at}, tokens/s", 1, "{:.1f}"), ("pp", f"prompt of {args.p}{at}, tokens/s", 1, "{:.0f}")]
    if not args.depth:
        rows.append(("first", "first token of 16, whole process, s", -1, "{:.2f}"))
    lines = ["| model | what | ours ÷ better llama.cpp | ours | llama.cpp | repacked |", "|---|---|---|---|---|---|"]
    for model, rounds in all_rounds.items():
        for key, what, better, form in rows:
            of = {name: [r[name][key] for r in rounds] for name in rounds[0]}
            best = max(PEERS, key=lambda name: better * median(of[name]))
            ratio, low, high = spread([a / b for a, b in zip(of["scantling"], of[best])])
            figures = [form.format(median(of[name])) for name in ("scantling", *PEERS)]
            shares = [r["scantling"][f"{key} share"] for r in rounds if f"{key} share" in r["scantling"]]
            if shares:
                figures[0] += f" ({median(share for share, _ in shares):.0%} of {shares[0][1]})"
            lines.append(f"| {model} | {what} | **{ratio:.2f}** ({low:.2f} to {high:.2f}) | {' | '.join(figures)} |")
        memory = [f"{max(r[name]['memory'] for r in rounds) / 2**20:.0f}" for name in ("scantling", *PEERS)]
        lines.append(f"| {model} | own memory, MiB: ours without, theirs with the cache | | {' | '.join(memory)} |")
    return "\n".join(lines)


def main():
    args = arguments()
    all_rounds = {model.stem: measure(args, model) for model in args.models}
    if args.json:
        args.json.write_text(json.dumps({"arguments": {k: str(v) for k, v in vars(args).items()}, "rounds": all_rounds}, indent=1))
    print(table(args, all_rounds))


if __name__ == "__main__":
    main()
