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

// Rates between two events, and the chart of bytes by transfer path.
class Overview {
  constructor(box) {
    this.box = box;
    this.last = null;
    this.rates = [];
    this.rows = Array.from(document.querySelectorAll("[data-path]"));
    const chart = document.querySelector("[data-chart=paths]");
    this.svg = drawn("svg", { viewBox: "0 0 1200 220", role: "img" });
    this.svg.setAttribute("aria-label", "Bytes per second by transfer path over the last two minutes");
    if (chart) chart.prepend(this.svg);
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
    this.show("connections", count(now.connections));
    this.show("partitions", count(now.partitions));
    if (now.resident !== null) this.show("resident", bytes(now.resident));
    if (this.last) {
      const seconds = Math.max(at - this.last.at, 0.001);
      const rate = (value, before) => Math.max(value - before, 0) / seconds;
      const before = this.last.now;
      this.show("produced", bytes(rate(now.produced, before.produced)) + "/s");
      this.show("fetched", bytes(rate(now.fetched, before.fetched)) + "/s");
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

  draw() {
    const [width, height, left] = [1200, 200, 90];
    const step = (width - left) / 119;
    const sums = this.rates.map((rates) => rates.reduce((sum, one) => sum + one, 0));
    const top = Math.max(...sums, 1024);
    const x = (index) => (width - (this.rates.length - 1 - index) * step).toFixed(1);
    const y = (value) => (height - (value / top) * (height - 10)).toFixed(1);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      parts.push(drawn("line", { class: "grid", x1: left, x2: width, y1: y(top * share), y2: y(top * share) }));
      const label = drawn("text", { x: left - 8, y: y(top * share), "text-anchor": "end", "dominant-baseline": "central" });
      label.textContent = bytes(top * share) + "/s";
      parts.push(label);
    }
    let floor = this.rates.map(() => 0);
    this.rows.forEach((_, index) => {
      const ceiling = this.rates.map((rates, at) => floor[at] + rates[index]);
      if (ceiling.some((value, at) => value > floor[at])) {
        const above = ceiling.map((value, at) => x(at) + "," + y(value));
        const below = floor.map((value, at) => x(at) + "," + y(value)).reverse();
        parts.push(drawn("polygon", { class: "s" + index, points: above.concat(below).join(" ") }));
      }
      floor = ceiling;
    });
    this.svg.replaceChildren(...parts);
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
      row.append(element("td", record.time));
      row.append(this.bytes(record.key), this.bytes(record.value), element("td", record.headers, "wide"), element("td", record.size, "n"));
      this.rows.prepend(row);
      this.seen += 1;
    }
    while (this.rows.children.length > 500) this.rows.lastElementChild.remove();
    this.state.textContent = `Following: ${count(this.seen)} records so far, the newest first.`;
  }

  bytes(shown) {
    const cell = element("td", undefined, "wide");
    cell.append(element("span", shown.form, "form-tag"), element("pre", shown.text));
    return cell;
  }
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
    return this.box.contains(document.activeElement) && document.activeElement !== this.box || this.box.querySelector("details[open]") !== null;
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
    fresh.dataset.count = String(Number(this.box.dataset.count || 0) + 1);
    this.box.replaceWith(document.adoptNode(fresh));
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

for (const box of document.querySelectorAll("[data-refresh]")) new Refreshed(box);
for (const box of document.querySelectorAll("[data-stream]")) new Stream(box.dataset.stream, new Overview(box));
for (const box of document.querySelectorAll("[data-tail]")) new Stream(box.dataset.tail, new Tail(box));
for (const link of document.querySelectorAll("[data-back]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    history.back();
  });
}
