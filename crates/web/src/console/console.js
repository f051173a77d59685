// What moves on the console's pages. Every page works without this file, except that nothing moves.
"use strict";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits) + " " + UNITS[unit];
}

function count(value) {
  return Math.round(value).toLocaleString("en-US");
}

function element(name, text, type) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (type) made.className = type;
  return made;
}

function drawn(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key of Object.keys(attributes)) made.setAttribute(key, attributes[key]);
  return made;
}

// A chart of what was seconds ago, as wide as its place, with the newest values at the right.
class Chart {
  constructor(place, label, seconds) {
    this.seconds = seconds;
    this.svg = drawn("svg", { role: "img", "aria-label": label });
    if (place) {
      place.prepend(this.svg);
      this.begin(0);
    }
  }

  begin(top) {
    this.top = Math.max(top, 1024);
    this.width = Math.max(this.svg.clientWidth, 240);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} 220`);
    this.svg.replaceChildren();
    for (const share of [0, 0.5, 1]) {
      const y = this.y(this.top * share);
      this.svg.append(drawn("line", { class: "grid", x1: 80, x2: this.width, y1: y, y2: y }));
      this.text(bytes(this.top * share) + "/s", { x: 72, y, "text-anchor": "end", "dominant-baseline": "central" });
      const minutes = (this.seconds / 60) * share;
      const anchor = share === 0 ? "end" : share === 1 ? "start" : "middle";
      this.text(minutes === 0 ? "now" : `${minutes} min ago`, { x: this.x(this.seconds * share), y: 216, "text-anchor": anchor });
    }
  }

  text(content, attributes) {
    const label = drawn("text", attributes);
    label.textContent = content;
    this.svg.append(label);
  }

  x(ago) {
    return (this.width - (ago / this.seconds) * (this.width - 80)).toFixed(1);
  }

  y(value) {
    return (195 - (value / this.top) * 185).toFixed(1);
  }

  draw(shape, type, points) {
    this.svg.append(drawn(shape, { class: type, points: points.map(([ago, value]) => this.x(ago) + "," + this.y(value)).join(" ") }));
  }
}

const STEP = 10;
const HOUR = 3600;

// Rates between two events, and the charts of bytes in and out and by transfer path.
class Overview {
  constructor(box) {
    this.box = box;
    this.last = null;
    this.rates = [];
    this.traffic = [];
    this.rows = Array.from(document.querySelectorAll("[data-path]"));
    const place = (name) => document.querySelector(`[data-chart=${name}]`);
    this.flow = new Chart(place("traffic"), "Bytes produced and fetched per second over the last hour", HOUR);
    this.paths = new Chart(place("paths"), "Bytes per second by transfer path over the last two minutes", 120);
    this.rows.forEach((row, index) => {
      const swatch = drawn("svg", { class: "swatch s" + index, viewBox: "0 0 10 10", width: 10, height: 10 });
      swatch.append(drawn("rect", { width: 10, height: 10, rx: 2 }));
      row.firstElementChild.prepend(swatch);
    });
  }

  show(name, text) {
    const value = this.box.querySelector(`[data-live=${name}]`);
    if (value) value.textContent = text;
  }

  take(now) {
    const at = performance.now() / 1000;
    if (now.history) {
      this.traffic = now.history.map((one) => ({ at: at - one.ago, number: STEP, produced: one.produced, fetched: one.fetched }));
      return;
    }
    this.show("connections", count(now.connections));
    this.show("partitions", count(now.partitions));
    if (now.resident !== null) this.show("resident", bytes(now.resident));
    if (this.last) {
      const seconds = Math.max(at - this.last.at, 0.001);
      const rate = (value, before) => Math.max(value - before, 0) / seconds;
      const before = this.last.now;
      const [produced, fetched] = [rate(now.produced, before.produced), rate(now.fetched, before.fetched)];
      this.show("produced", bytes(produced) + "/s");
      this.show("fetched", bytes(fetched) + "/s");
      this.flows(at, produced, fetched);
      this.show("requests", count(rate(now.requests, before.requests)) + "/s");
      if (now.cpu !== null) this.show("cpu", (100 * rate(now.cpu, before.cpu)).toFixed(1) + " %");
      this.rates.push(this.rows.map((row) => rate(now.paths[row.dataset.path], before.paths[row.dataset.path])));
      if (this.rates.length > 120) this.rates.shift();
      this.list(now);
      this.draw();
    }
    this.last = { at, now };
  }

  list(now) {
    const recent = this.rates.slice(-60);
    const sums = this.rows.map((_, index) => recent.reduce((sum, rates) => sum + rates[index], 0));
    const whole = sums.reduce((sum, one) => sum + one, 0);
    const rates = this.rates[this.rates.length - 1];
    this.rows.forEach((row, index) => {
      row.querySelector("[data-rate]").textContent = bytes(rates[index]) + "/s";
      row.querySelector("[data-total]").textContent = bytes(now.paths[row.dataset.path]);
      row.querySelector("progress").value = whole > 0 ? sums[index] / whole : 0;
    });
  }

  // The mean of each ten seconds.
  flows(at, produced, fetched) {
    let last = this.traffic[this.traffic.length - 1];
    if (!last || last.number >= STEP) {
      last = { at, number: 0, produced: 0, fetched: 0 };
      this.traffic.push(last);
    }
    last.at = at;
    last.number += 1;
    last.produced += (produced - last.produced) / last.number;
    last.fetched += (fetched - last.fetched) / last.number;
    this.traffic = this.traffic.filter((one) => at - one.at <= HOUR);
    this.flow.begin(Math.max(...this.traffic.map((one) => Math.max(one.produced, one.fetched))));
    for (const [type, name] of [["s0", "produced"], ["s1", "fetched"]]) {
      this.flow.draw("polyline", type, this.traffic.map((one) => [at - one.at, one[name]]));
    }
  }

  draw() {
    const ago = (index) => this.rates.length - 1 - index;
    this.paths.begin(Math.max(...this.rates.map((rates) => rates.reduce((sum, one) => sum + one, 0))));
    let floor = this.rates.map(() => 0);
    this.rows.forEach((_, index) => {
      const ceiling = this.rates.map((rates, at) => floor[at] + rates[index]);
      if (ceiling.some((value, at) => value > floor[at])) {
        const points = (values) => values.map((value, at) => [ago(at), value]);
        this.paths.draw("polygon", "s" + index, points(ceiling).concat(points(floor).reverse()));
      }
      floor = ceiling;
    });
  }
}

// New records at the top of the table, as the broker sends them.
class Tail {
  constructor(box) {
    this.rows = box.querySelector("tbody");
    this.state = document.querySelector("[data-tail-state]");
    this.seen = 0;
  }

  take(event) {
    if (event.failed) {
      this.state.textContent = event.failed;
      return;
    }
    for (const record of event.records) {
      const row = element("tr");
      for (const text of [record.partition, record.offset]) row.append(element("td", String(text), "n"));
      row.append(element("td", record.time, "time"));
      row.append(this.bytes(record.key, "key"), this.bytes(record.value, "value"), element("td", record.headers, "key"), element("td", record.size, "n"));
      this.rows.prepend(row);
      this.seen += 1;
    }
    while (this.rows.children.length > 500) this.rows.lastElementChild.remove();
    this.state.textContent = `Following: ${count(this.seen)} records so far, the newest first.`;
  }

  bytes(shown, type) {
    const cell = element("td", undefined, type);
    if (shown.text === undefined) {
      cell.append(element("span", shown.form, "form-tag"));
      return cell;
    }
    const [part, head, form] = [element("details", undefined, "part"), element("summary"), element("p", shown.form, "soft")];
    head.append(element("code", shown.line));
    part.append(head, form, element("pre", shown.text));
    offerCopy(form);
    cell.append(part);
    return cell;
  }
}

// A button that copies the text of an opened key or value.
function offerCopy(place) {
  const button = element("button", "Copy", "quiet");
  button.type = "button";
  button.addEventListener("click", () => {
    const text = place.parentElement.querySelector("pre");
    getSelection().selectAllChildren(text);
    // The clipboard of the newer interface exists on encrypted and local pages only.
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
  });
  place.append(" ", button);
}

// A table that sorts by a column: its rows of this page, by numbers with their units, or by text.
class Sorted {
  constructor(table) {
    this.body = table.tBodies[0];
    Array.from(table.tHead.rows[0].cells, (head, index) => {
      if (this.body.rows.length < 2 || this.body.querySelector("form")) return;
      const button = element("button", head.textContent, "sort");
      button.type = "button";
      button.addEventListener("click", () => this.by(head, index));
      head.replaceChildren(button);
    });
  }

  by(head, index) {
    const falls = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    const rows = Array.from(this.body.rows, (row) => [amount(row.cells[index]), row]);
    rows.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0) * (falls ? -1 : 1));
    this.body.append(...rows.map(([, row]) => row));
  }
}

const FACTORS = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4, PiB: 1024 ** 5, ms: 0.001, s: 1, min: 60, h: 3600, d: 86400 };

// The value of a cell of numbers, unknown ones least; the text of another.
function amount(cell) {
  const text = cell ? cell.textContent.trim() : "";
  if (!cell || !cell.classList.contains("n")) return text.toLowerCase();
  let sum = 0;
  const parts = Array.from(text.replaceAll(",", "").matchAll(/(-?[0-9.]+) ?([A-Za-z]*)/g));
  for (const [, number, unit] of parts) sum += Number(number) * (FACTORS[unit] || 1);
  return parts.length === 0 ? -Infinity : sum;
}

// The tables of a part of the page that was read anew, sorted as before.
function sortAgain(before, now) {
  const tables = now.querySelectorAll("table");
  Array.from(before.querySelectorAll("table"), (old, number) => {
    const table = tables[number];
    const at = old.tHead ? Array.from(old.tHead.rows[0].cells).findIndex((head) => head.hasAttribute("aria-sort")) : -1;
    if (!table || !table.tHead) return;
    const sorted = new Sorted(table);
    if (at < 0 || !table.tHead.rows[0].cells[at]) return;
    sorted.by(table.tHead.rows[0].cells[at], at);
    if (old.tHead.rows[0].cells[at].getAttribute("aria-sort") === "descending") sorted.by(table.tHead.rows[0].cells[at], at);
  });
}

// A stream of events. The browser connects again by itself when a connection ends, and continues behind the last event; it gives up when the
// broker refuses, so that the reason is asked for and shown. A page that nobody sees gives its connection back: a browser has six of them for a
// broker.
class Stream {
  constructor(target, taker) {
    this.target = target;
    this.taker = taker;
    this.state = document.querySelector("[data-stream-state]");
    window.addEventListener("pagehide", () => this.rest());
    document.addEventListener("visibilitychange", () => document.hidden ? this.rest() : this.open());
    if (!document.hidden) this.open();
  }

  rest() {
    clearTimeout(this.again);
    if (this.request) this.request.abort();
    if (this.source) this.source.close();
    this.source = this.request = null;
  }

  open() {
    this.rest();
    this.source = new EventSource(this.last ? this.target + "&positions=" + encodeURIComponent(this.last) : this.target);
    this.source.onopen = () => this.tell("");
    this.source.onmessage = (event) => this.take(event.lastEventId, JSON.parse(event.data));
    this.source.onerror = () => this.interrupted();
  }

  take(id, event) {
    if (id) this.last = id;
    this.tell("");
    this.taker.take(event);
  }

  interrupted() {
    if (this.source && this.source.readyState !== EventSource.CLOSED) return this.tell("The connection to the broker is lost. The page connects again.");
    const request = this.request = new XMLHttpRequest();
    request.open("GET", this.target);
    request.setRequestHeader("Accept", "text/event-stream");
    request.onreadystatechange = () => {
      if (request !== this.request || request.readyState < 2 || request.status === 0) return;
      if (request.status === 401) return location.reload();
      if (request.status === 200) {
        request.onreadystatechange = null;
        return this.open();
      }
      if (request.readyState === 4) this.refused(request.responseText.trim());
    };
    request.onerror = () => this.refused("The broker does not answer.");
    request.send();
  }

  refused(reason) {
    this.tell(reason + " The page tries again every 10 seconds.");
    this.again = setTimeout(() => this.interrupted(), 10000);
  }

  tell(text) {
    if (!this.state) return;
    this.state.hidden = text === "";
    this.state.textContent = text;
  }
}

// A part of the page that is read anew every few seconds while the page is seen. A part in which somebody types or has opened a form stays.
class Refreshed {
  constructor(box) {
    this.box = box;
    this.at = performance.now();
    this.wait();
  }

  wait() {
    const seconds = Number(this.box.dataset.refresh);
    if (seconds > 0) setTimeout(() => this.read(), seconds * 1000);
  }

  isUsed() {
    const active = document.activeElement;
    return this.box.contains(active) && active !== this.box && !active.classList.contains("sort") || this.box.querySelector("details[open]") !== null;
  }

  read() {
    if (document.hidden || this.isUsed()) return this.wait();
    const request = new XMLHttpRequest();
    request.open("GET", location.href);
    request.responseType = "document";
    request.setRequestHeader("X-Levada-Refresh", "1");
    request.timeout = 30000;
    request.onload = () => this.take(request.status, request.response);
    request.onerror = request.ontimeout = () => this.wait();
    request.send();
  }

  take(status, page) {
    if (status === 401) return location.reload();
    const fresh = status === 200 && page ? page.getElementById(this.box.id) : null;
    const unheard = fresh && page.getElementById("unheard");
    if (unheard) document.getElementById("unheard").replaceWith(document.adoptNode(unheard));
    if (fresh === null || this.isUsed()) return this.wait();
    if (fresh.dataset.refresh === undefined) return location.reload();
    const now = performance.now();
    rates(this.box, fresh, (now - this.at) / 1000);
    const scrolled = Array.from(this.box.querySelectorAll(".scroll"), (one) => one.scrollLeft);
    this.at = now;
    sortAgain(this.box, fresh);
    fresh.dataset.count = String(Number(this.box.dataset.count || 0) + 1);
    const heads = (box) => Array.from(box.querySelectorAll("button.sort"));
    const focused = heads(this.box).indexOf(document.activeElement);
    this.box.replaceWith(document.adoptNode(fresh));
    if (focused >= 0 && heads(fresh)[focused]) heads(fresh)[focused].focus({ preventScroll: true });
    this.box = fresh;
    fresh.querySelectorAll(".scroll").forEach((one, index) => { one.scrollLeft = scrolled[index] || 0; });
    this.wait();
  }
}

// Rates of the totals in the cells of a table that was read twice.
function rates(before, now, seconds) {
  const totals = new Map();
  for (const cell of before.querySelectorAll("[data-rate-key]")) totals.set(cell.dataset.rateKey, Number(cell.dataset.rateTotal));
  for (const cell of now.querySelectorAll("[data-rate-key]")) {
    const total = totals.get(cell.dataset.rateKey);
    if (total !== undefined) cell.textContent = bytes(Math.max(Number(cell.dataset.rateTotal) - total, 0) / seconds) + "/s";
  }
}

for (const table of document.querySelectorAll("main table")) if (table.tHead) new Sorted(table);
for (const place of document.querySelectorAll("[data-copied]")) offerCopy(place);
for (const box of document.querySelectorAll("[data-refresh]")) new Refreshed(box);
for (const box of document.querySelectorAll("[data-stream]")) new Stream(box.dataset.stream, new Overview(box));
for (const box of document.querySelectorAll("[data-tail]")) new Stream(box.dataset.tail, new Tail(box));
for (const link of document.querySelectorAll("[data-back]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    history.back();
  });
}
