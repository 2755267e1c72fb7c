// The list of tensors: made from the data in the page, sorted, searched, opened row by row; and the pictures by keyboard.
// Text is only ever set as text.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 100; // rows at a time: a browser takes seconds for some ten thousand
  const PRINTED = 2000;
  const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-"; // heights of bars
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  // A row is a list: what stands where.
  const [NAME, LAYER, KIND, TYPE, SHAPE, ELEMENTS, BYTES, FILE, OFFSET, NOTE, MORE] = Array(11).keys();
  const SPREAD = MORE + data.columns.length;
  const rows = data.rows;
  const lower = rows.map((row) => row[NAME].toLowerCase());

  const whole = (n) => n.toLocaleString("en-US");
  const bytes = (n) => {
    if (n < 1024) return n + " bytes";
    let size = n / 1024, unit = 0;
    while (size >= 1000 && unit < 5) { size /= 1024; unit++; }
    return size.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0) + " " + ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit];
  };
  const number = (n, digits = 6) => {
    if (typeof n !== "number") return n ?? "";
    if (Number.isInteger(n) && Math.abs(n) < 1e15) return whole(n);
    const size = Math.abs(n);
    return size < 1e-4 || size >= 1e7 ? n.toExponential(digits - 2) : String(Number(n.toPrecision(digits)));
  };

  const columns = [
    { id: "name", title: "tensor", of: (row) => row[NAME], by: (row, at) => at },
    { id: "layer", title: "layer", n: true, broad: true, of: (row) => row[LAYER] ?? "", by: (row) => row[LAYER], up: true },
    { id: "type", title: "type", of: (row) => data.types[row[TYPE]], by: (row) => data.types[row[TYPE]] },
    { id: "shape", title: "shape", broad: true, of: (row) => data.shapes[row[SHAPE]], by: (row) => row[ELEMENTS], down: true },
    { id: "elements", title: "elements", n: true, broad: true, of: (row) => whole(row[ELEMENTS]), by: (row) => row[ELEMENTS] },
    { id: "bytes", title: "bytes", n: true, of: (row) => bytes(row[BYTES]), by: (row) => row[BYTES] },
    { id: "offset", title: "offset", n: true, broad: true, hidden: data.sort[0] !== "offset",
      of: (row) => row[OFFSET] === null ? "" : whole(row[OFFSET]), by: (row) => row[FILE] * 2 ** 53 + (row[OFFSET] ?? 0), up: true },
    ...data.columns.map(([id, title, explain, narrow, words], at) => ({
      id, title, explain, n: !words, broad: !narrow, wraps: words && !narrow, of: (row) => number(row[MORE + at], 4), by: (row) => row[MORE + at],
    })),
  ].filter((column) => !column.hidden);
  const spreads = rows.some((row) => row[SPREAD]);

  const state = { sort: data.sort[0], down: data.sort[1], page: 0, kind: null, shown: [], open: new Set() };

  // What is searched for: words that the name holds, patterns that it is, layers.
  const wanted = (text) => text.trim().toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const layers = /^layer:(\d+)(?:-(\d+))?$/.exec(word);
    if (layers) {
      const [from, to] = [Number(layers[1]), Number(layers[2] ?? layers[1])];
      return (row) => row[LAYER] !== null && row[LAYER] >= from && row[LAYER] <= to;
    }
    if (/[*?]/.test(word)) {
      const pattern = word.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*+/g, "[^]*").replace(/\?/g, "[^]");
      const whole = new RegExp(`^${pattern}$`);
      return (row, at) => whole.test(lower[at]);
    }
    return (row, at) => lower[at].includes(word);
  });

  // What is no number, or not there, comes last either way.
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : a < b ? -1 : a > b ? 1 : 0;
  const rank = (value) => value === null || value === undefined || value === "" ? 2 : typeof value === "string" && state.numeric ? 1 : 0;

  const choose = () => {
    const tests = wanted($("query").value);
    const type = $("type").value, part = $("part").value;
    const picked = [];
    rows.forEach((row, at) => {
      if (type !== "" && row[TYPE] !== Number(type)) return;
      if (part !== "" && data.kinds[row[KIND]][1] !== part) return;
      if (state.kind !== null && row[KIND] !== state.kind) return;
      if (tests.every((test) => test(row, at))) picked.push(at);
    });
    const column = columns.find((c) => c.id === state.sort) ?? columns[0];
    const keys = new Map(picked.map((at) => [at, column.by(rows[at], at)]));
    state.numeric = picked.some((at) => typeof keys.get(at) === "number");
    const sign = state.down ? -1 : 1;
    picked.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      return rank(x) - rank(y) || sign * compare(x, y) || a - b;
    });
    state.shown = picked;
    state.page = 0;
    draw();
  };

  const bars = (spread, className) => {
    const heights = [...spread[2]].map((digit) => DIGITS.indexOf(digit)), svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${heights.length} 63`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("class", className);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `Numbers from ${number(spread[0])} to ${number(spread[1])}; the highest bar holds ${whole(spread[3])}`);
    heights.forEach((height, at) => {
      if (!height) return;
      const bar = document.createElementNS(SVG, "rect");
      for (const [name, value] of Object.entries({ x: at + 0.05, y: 63 - height, width: 0.9, height })) bar.setAttribute(name, value);
      svg.append(bar);
    });
    return svg;
  };

  const details = (row) => {
    const cell = make("td", undefined, { colspan: columns.length + spreads });
    const list = make("dl");
    const say = (name, value, title) => {
      if (value === "" || value === null || value === undefined) return;
      const pair = make("div");
      pair.append(make("dt", name, title ? { title } : {}), make("dd", value));
      list.append(pair);
    };
    say("kind", data.kinds[row[KIND]][0]);
    say("part", data.kinds[row[KIND]][1]);
    say("layer", row[LAYER]);
    say("elements", whole(row[ELEMENTS]));
    say("bytes", whole(row[BYTES]));
    if (row[ELEMENTS]) say("bits for each element", (row[BYTES] * 8 / row[ELEMENTS]).toFixed(3));
    say("file", data.files[row[FILE]]);
    if (row[OFFSET] !== null) say("from byte", whole(row[OFFSET]));
    data.columns.forEach(([, title, explain], at) => say(title, number(row[MORE + at]), explain));
    say("note", row[NOTE]);
    cell.append(list);
    const spread = row[SPREAD];
    if (spread) {
      const figure = make("figure"), axis = make("div", undefined, { class: "axis" });
      axis.append(make("span", number(spread[0])), make("span", `highest bar: ${whole(spread[3])}`), make("span", number(spread[1])));
      figure.append(bars(spread, "spread"), axis);
      if (spread[4] || spread[5]) figure.append(make("p", `beyond: ${whole(spread[4])} below, ${whole(spread[5])} above`, { class: "note" }));
      cell.append(figure);
    }
    const line = make("tr", undefined, { class: "more" });
    line.append(cell);
    return line;
  };

  const line = (at) => {
    const row = rows[at], open = state.open.has(at);
    const tr = make("tr", undefined, open ? { class: "open" } : {});
    for (const column of columns) {
      if (column.id === "name") {
        const th = make("th", undefined, { scope: "row", class: row[NAME].length > 64 ? "long" : "" });
        th.append(make("button", row[NAME], { type: "button", class: "name", "data-row": at, "aria-expanded": open }));
        tr.append(th);
      } else {
        tr.append(make("td", column.of(row), { class: (column.n ? "n" : "") + (column.broad ? " broad" : "") + (column.wraps ? " wraps" : "") }));
      }
    }
    if (spreads) {
      const cell = make("td", undefined, { class: "broad" });
      if (row[SPREAD]) cell.append(bars(row[SPREAD], "spark"));
      tr.append(cell);
    }
    return open ? [tr, details(row)] : [tr];
  };

  const draw = (all = false) => {
    const count = state.shown.length;
    const from = all ? 0 : state.page * PAGE, to = Math.min(all ? PRINTED : from + PAGE, count);
    $("rows").tBodies[0].replaceChildren(...state.shown.slice(from, to).flatMap(line));
    for (const head of $("rows").tHead.querySelectorAll("th")) {
      if (head.dataset.id === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const sum = state.shown.reduce((n, at) => n + rows[at][BYTES], 0);
    let said = count === rows.length ? `${whole(count)} tensors` : `${whole(count)} of ${whole(rows.length)} tensors`;
    said += `, ${bytes(sum)}`;
    if (state.kind !== null) said += `; only ${data.kinds[state.kind][0]}`;
    if (data.hidden) said += `; ${whole(data.hidden)} left out by --include and --exclude`;
    $("count").textContent = said;
    $("where").textContent = count ? `${whole(from + 1)}–${whole(to)} of ${whole(count)}` : "none";
    $("previous").disabled = from === 0;
    $("next").disabled = to >= count;
  };

  const heads = () => {
    const tr = make("tr");
    for (const column of columns) {
      const th = make("th", undefined, { scope: "col", "data-id": column.id, class: (column.n ? "n" : "") + (column.broad ? " broad" : "") });
      th.append(make("button", column.title, { type: "button", ...(column.explain ? { title: column.explain } : {}) }));
      tr.append(th);
    }
    if (spreads) tr.append(make("th", "spread", { scope: "col", class: "broad" }));
    $("rows").tHead.append(tr);
    $("rows").tHead.addEventListener("click", (event) => {
      const id = event.target.closest("button")?.parentElement.dataset.id;
      if (!id) return;
      const column = columns.find((c) => c.id === id);
      // Of numbers, the largest are what one looks for.
      const first = column.down || (column.n && !column.up) || false;
      state.down = state.sort === id ? !state.down : first;
      state.sort = id;
      choose();
    });
  };

  const options = (select, all, pairs) => {
    select.append(make("option", all, { value: "" }), ...pairs.map(([value, text]) => make("option", text, { value })));
  };

  const only = (kind) => {
    $("search").reset();
    state.kind = kind;
    choose();
    $("tensors").scrollIntoView();
    $("query").focus({ preventScroll: true });
  };

  const list = () => {
    heads();
    options($("type"), "all types", data.types.map((type, at) => [at, type]));
    options($("part"), "all parts", [...new Set(data.kinds.map((kind) => kind[1]))].map((part) => [part, part]));
    $("search").addEventListener("submit", (event) => event.preventDefault());
    $("search").addEventListener("input", choose);
    $("search").addEventListener("reset", () => { state.kind = null; setTimeout(choose); });
    const turn = (by) => { state.page += by; draw(); $("rows").querySelector("tbody button")?.focus(); };
    $("previous").addEventListener("click", () => turn(-1));
    $("next").addEventListener("click", () => turn(1));
    const body = $("rows").tBodies[0];
    body.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-row]");
      if (!button) return;
      const at = Number(button.dataset.row), tr = button.closest("tr");
      if (state.open.delete(at)) {
        tr.nextElementSibling.remove();
      } else {
        state.open.add(at);
        tr.after(details(rows[at]));
      }
      tr.classList.toggle("open", state.open.has(at));
      button.setAttribute("aria-expanded", state.open.has(at));
    });
    body.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || !event.target.matches("button[data-row]")) return;
      event.preventDefault();
      const all = [...body.querySelectorAll("button[data-row]")];
      all[all.indexOf(event.target) + step]?.focus();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
      event.preventDefault();
      $("query").focus();
    });
    document.addEventListener("click", (event) => {
      const kind = event.target.closest("[data-kind]")?.dataset.kind;
      if (kind !== undefined) only(Number(kind));
    });
    addEventListener("beforeprint", () => draw(true));
    addEventListener("afterprint", () => draw());
    $("list").hidden = false;
    choose();
  };

  // What a cell of a picture says, below it: by pointer, or by arrow keys.
  const picture = (figure) => {
    const body = figure.querySelector("tbody"), region = figure.querySelector(".scroll"), out = figure.querySelector(".readout");
    let here = null;
    const go = (cell) => {
      here?.classList.remove("here");
      here = cell;
      cell.classList.add("here");
      if (cell.title) out.textContent = cell.title;
    };
    body.addEventListener("pointerover", (event) => {
      const cell = event.target.closest("td");
      if (cell) go(cell);
    });
    region.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step || event.target !== region) return;
      event.preventDefault();
      const at = here ? [here.parentElement.rowIndex - 1, here.cellIndex] : [-step[0], 1 - step[1]];
      const cell = body.rows[at[0] + step[0]]?.cells[at[1] + step[1]];
      if (cell?.tagName !== "TD") return;
      go(cell);
      cell.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  };

  list();
  document.querySelectorAll(".heat").forEach(picture);
})();
