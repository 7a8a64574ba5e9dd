"use strict";
const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
const bytes = (kib) => {
  let unit = 0;
  while (kib >= 1023.5 && unit + 1 < units.length) { kib /= 1024; unit += 1; }
  return kib.toFixed(kib < 9.995 ? 2 : kib < 99.95 ? 1 : 0) + " " + units[unit];
};
const time = (ns) => ns < 1e9 ? (ns / 1e6).toFixed(1) + " ms" : (ns / 1e9).toFixed(2) + " s";
// Values are kept where they change: bin, value, bin, value.
const at = (changes, bin) => {
  let low = 0, high = changes.length / 2;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (changes[2 * middle] <= bin) low = middle + 1; else high = middle;
  }
  return low === 0 ? 0 : changes[2 * low - 1];
};
const tip = document.getElementById("tip");
const cell = (row, text, number) => {
  const one = row.insertCell();
  one.textContent = text;
  if (number) one.className = "n";
};

for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector("svg[data-plot]");
  const chart = charts[figure.id];
  if (!svg || !chart) continue;
  const [left, top, width, height] = svg.dataset.plot.split(" ").map(Number);
  const [from, to] = svg.dataset.time.split(" ").map(Number);
  for (const title of svg.querySelectorAll("path > title")) title.remove();
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  line.setAttribute("class", "hover");
  line.setAttribute("y1", top);
  line.setAttribute("y2", top + height);
  line.style.display = "none";
  svg.append(line);
  const off = new Set();

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const y = (event.clientY - box.top) * svg.viewBox.baseVal.height / box.height;
    if (x < left || x > left + width || y < top || y > top + height) return hide();
    const ns = from + (x - left) / width * (to - from);
    const bin = Math.max(0, Math.floor((ns - chart.start) / chart.bin));
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    line.style.display = "";
    const table = document.createElement("table");
    const head = table.insertRow();
    cell(head, "at " + time(ns));
    cell(head, bytes(at(chart.total, bin)), true);
    head.style.fontWeight = "600";
    chart.series.map(([name, changes]) => [name, at(changes, bin)])
      .filter(([name, kib]) => kib > 0 && !off.has(name))
      .sort((a, b) => b[1] - a[1]).slice(0, 12)
      .forEach(([name, kib]) => {
        const row = table.insertRow();
        cell(row, name);
        cell(row, bytes(kib), true);
      });
    tip.replaceChildren(table);
    tip.hidden = false;
    const right = event.clientX + 16 + tip.offsetWidth > innerWidth;
    tip.style.left = (right ? event.clientX - 16 - tip.offsetWidth : event.clientX + 16) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 4)) + "px";
  });
  const hide = () => { tip.hidden = true; line.style.display = "none"; };
  svg.addEventListener("pointerleave", hide);

  for (const entry of svg.querySelectorAll(".entry")) {
    entry.tabIndex = 0;
    entry.setAttribute("role", "button");
    entry.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      entry.dispatchEvent(new MouseEvent("click"));
    });
    entry.addEventListener("click", () => {
      if (entry.dataset.line) {
        const shown = !entry.classList.toggle("off");
        svg.querySelector("." + entry.dataset.line).classList.toggle("shown", shown);
        return;
      }
      const name = entry.dataset.series;
      const gone = !off.delete(name) && Boolean(off.add(name));
      for (const part of svg.querySelectorAll("[data-series]")) {
        if (part.dataset.series === name) part.classList.toggle("off", gone);
      }
    });
  }
}

for (const svg of document.querySelectorAll("svg.memprof-icicle")) {
  const width = svg.viewBox.baseVal.width;
  const said = svg.parentElement.querySelector(".said");
  const calls = [...svg.querySelectorAll(".call")].map((call) => {
    const [rect, text] = [call.querySelector("rect"), call.querySelector("text")];
    const [x, wide] = [Number(rect.getAttribute("x")), Number(rect.getAttribute("width"))];
    return { call, rect, text, x, wide, row: Number(call.dataset.row), hint: call.getAttribute("aria-label") };
  });
  const holds = (outer, inner) => outer.x <= inner.x + 0.01 && outer.x + outer.wide >= inner.x + inner.wide - 0.01;
  const enlarge = (to) => {
    for (const one of calls) {
      const left = Math.max(0, (one.x - to.x) / to.wide * width);
      const right = Math.min(width, (one.x + one.wide - to.x) / to.wide * width);
      one.call.style.display = right - left < 0.5 ? "none" : "";
      one.rect.setAttribute("x", left);
      one.rect.setAttribute("width", Math.max(0, right - left));
      one.text.setAttribute("x", left + 4);
      const name = one.hint.split(" · ")[0], room = Math.floor((right - left - 8) / 6.2);
      one.text.textContent = room < 4 ? "" : name.length > room ? name.slice(0, room - 1) + "…" : name;
    }
  };
  // Only one call is in the order of the Tab key; arrows go on from it.
  const go = (one) => {
    if (!one) return;
    for (const other of calls) other.call.tabIndex = other === one ? 0 : -1;
    one.call.focus();
  };
  const shown = (one) => one.call.style.display !== "none";
  const near = (one, row, step) => {
    const row_of = calls.filter((other) => other.row === row && shown(other)).sort((a, b) => a.x - b.x);
    if (step) return row_of[row_of.indexOf(one) + step];
    return row_of.find((other) => holds(row < one.row ? other : one, row < one.row ? one : other));
  };
  const keys = {
    ArrowUp: (one) => go(near(one, one.row - 1, 0)),
    ArrowDown: (one) => go(near(one, one.row + 1, 0)),
    ArrowLeft: (one) => go(near(one, one.row, -1)),
    ArrowRight: (one) => go(near(one, one.row, 1)),
    Enter: enlarge,
    " ": enlarge,
    Escape: () => enlarge(calls[0]),
  };
  calls.forEach((one, index) => {
    one.call.tabIndex = index ? -1 : 0;
    one.call.setAttribute("role", "button");
    one.call.addEventListener("click", () => { enlarge(one); go(one); });
    one.call.addEventListener("focus", () => { said.textContent = one.hint; });
    one.call.addEventListener("pointerenter", () => { said.textContent = one.hint; });
    one.call.addEventListener("keydown", (event) => {
      if (!keys[event.key]) return;
      event.preventDefault();
      keys[event.key](one);
    });
  });
}

for (const select of document.querySelectorAll("select[data-choose]")) {
  select.addEventListener("change", () => {
    for (const option of select.options) {
      const figure = document.getElementById(option.value);
      if (figure) figure.hidden = option.value !== select.value;
    }
  });
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
