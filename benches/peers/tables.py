"""A run as Markdown: ratios first, then what each library reached."""


def render(report):
    machine, best = report["machine"], report["best"]
    lines = [
        f"{report['date']}, {machine['cores']} × {machine['cpu']} ({', '.join(machine['features'])}), {machine['system']}",
        "",
        "The best of the rounds." if best else "Medians over the rounds, of ratios with their quartiles.",
        "",
    ]
    products = [f for f in report["figures"] if f["work"]["op"] == "matmul"]
    decodings = [f for f in report["figures"] if f["work"]["op"] == "decode"]
    if products:
        lines += ["### Products, ours against the best peer", "", *ratios(products, product_rates), ""]
        lines += ["### Products, all", "", *everything(products, product_rates, "distance from f64", best), ""]
    if decodings:
        lines += ["### Widening to f32, ours against the best peer", "", *ratios(decodings, decode_rates), ""]
        lines += ["### Widening to f32, all", "", *everything(decodings, decode_rates, "largest difference", best), ""]
    lines += ["### Limits in the same run", "", *limits(report["figures"]), ""]
    lines += ["### Versions", "", *versions(report["figures"])]
    return "\n".join(lines)


def product_rates(figure, nanoseconds):
    """GB/s of stored weights, GFLOP/s, and the shares of what the machine can do."""
    flops = 2 * figure["work"]["rows"] * figure["out"] * figure["in"]
    read, fma = figure["limits"]["read"][0], figure["limits"]["fma"][0]
    bytes_rate, flop_rate = figure["bytes"] / nanoseconds, flops / nanoseconds
    return {
        "GB/s": f"{bytes_rate:.2f}",
        "GFLOP/s": f"{flop_rate:.1f}",
        "of read": f"{bytes_rate / read:.0%}",
        "of FMA peak": f"{flop_rate / fma:.0%}",
    }


def decode_rates(figure, nanoseconds):
    """GB/s of f32 written, and the share of copying: what is read and written against what memcpy does of both."""
    written = 4 * figure["out"] * figure["in"]
    traffic = (written + figure["bytes"]) / nanoseconds
    return {"f32 GB/s": f"{written / nanoseconds:.2f}", "of copy": f"{traffic / (2 * figure['limits']['copy'][0]):.0%}"}


def ratios(figures, rates):
    rows = []
    for figure in figures:
        ours = next((c for c in figure["contestants"] if c["side"] == "ours"), None)
        peers = [c for c in figure["contestants"] if c["side"] != "ours"]
        if not peers:
            continue
        sides = sorted({c["side"] for c in peers})
        best = {side: min((c for c in peers if c["side"] == side), key=median) for side in sides}
        row = what(figure)
        if ours:
            first = min(peers, key=median)
            row |= {"ours ÷ best peer": ratio(first)} | rates(figure, median(ours))
            row |= {f"÷ {side}": f"{ratio(c)} ({c['name'].removeprefix(side).strip()})" for side, c in best.items()}
        else:
            row |= {side: next(iter(rates(figure, median(c)).values())) for side, c in best.items()}
        rows.append(row)
    return table(rows)


def everything(figures, rates, distance, best):
    rows = []
    for figure in figures:
        for c in sorted(figure["contestants"], key=median):
            row = what(figure) | {"who": c["name"]} | rates(figure, median(c))
            _, low, high = c["nanoseconds"]
            if not best:
                row["spread"] = f"±{(high - low) / 2 / median(c):.0%}"
            row["huge pages"] = f"{c['huge']:.0%}"
            row[distance] = "" if c["distance"] is None else f"{c['distance']:.1e}"
            rows.append(row)
    return table(rows)


def limits(figures):
    rows = {}
    for figure in figures:
        for name, (middle, low, high) in figure["limits"].items():
            rows.setdefault((figure["threads"], name), []).append((middle, low, high))
    units = {"read": "GB/s", "stream": "GB/s", "copy": "GB/s copied", "fma": "GFLOP/s", "int8": "GOP/s"}
    return table(
        {
            "threads": str(threads), "limit": name,
            "median over figures": f"{sorted(m for m, _, _ in all_)[len(all_) // 2]:.1f} {units[name]}",
            "best figure": f"{max(m for m, _, _ in all_):.1f}",
        }
        for (threads, name), all_ in rows.items()
    )


def versions(figures):
    return [f"- {v}" for v in sorted({f"{c['side']}: {c['about']}" for f in figures for c in f["contestants"]})]


def what(figure):
    row = {"type": figure["dtype"], "threads": str(figure["threads"])}
    if "rows" in figure["work"]:
        row["rows"] = str(figure["work"]["rows"])
    return row


def median(contestant):
    return contestant["nanoseconds"][0]


def ratio(peer):
    middle, low, high = peer["ours_over_it"]
    return f"{middle:.2f}" if low == high else f"{middle:.2f} [{low:.2f}–{high:.2f}]"


def table(rows):
    rows = list(rows)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(row.get(c, "") for c in columns) + " |" for row in rows]
