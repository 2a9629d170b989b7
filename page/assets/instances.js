// The table of instances: hundreds of rows, of which a screen shows few. These are brought up to date at once and the others
// a few at a time, while the browser has nothing else to do, so that news cost less than a frame.
"use strict";

const kIdleRows = 8;
const whenIdle = window.requestIdleCallback ? work => requestIdleCallback(work) : work => setTimeout(work, 50);
const kInstanceColumns = [["instance"], ["node"], ["state"], ["restarts", "number"], ["version", "number"], ["staleness", "number"],
                          ["waits", "number"], ["for, and why", "why"]];

class Instances {
  /// parent: scrolls, and has nothing else in it.
  constructor(parent) {
    this.parent = parent;
    this.rows = [];  // of each row: its element, what it is to show, what it shows
    this.later = false;
    this.head = element("tr", {}, ...kInstanceColumns.map(([name, kind]) => element("th", kind === "number" ? {className: kind} : {}, name)));
    this.body = element("tbody");
    this.rest = element("p", {className: "quiet"});
    parent.replaceChildren(element("table", {}, element("thead", {}, this.head), this.body), this.rest);
    for (const scrolls of [parent, window]) scrolls.addEventListener("scroll", () => this.draw(), {passive: true});
  }

  show(seen) {
    while (this.rows.length < seen.instances.length) this.add();
    while (this.rows.length > seen.instances.length) this.rows.pop().element.remove();
    seen.instances.forEach((one, i) => this.rows[i].wanted = one);
    this.rest.textContent = seen.instances_count > seen.instances.length ? `of ${seen.instances_count} instances these are down, or wait longest` : "";
    this.draw();
  }

  add() {
    const cells = kInstanceColumns.map(([, kind]) => element("td", kind ? {className: kind} : {}, "\u00a0"));
    this.rows.push({element: element("tr", {}, ...cells), wanted: null, shown: null});
    this.body.append(this.rows[this.rows.length - 1].element);
  }

  /// The rows that are on the screen now, and the others later.
  draw() {
    const box = this.parent.getBoundingClientRect(), top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
    if (top < bottom) {
      // All places are read before anything is written, which would make the browser find them anew.
      const places = this.rows.map(row => row.element.getBoundingClientRect());
      this.rows.forEach((row, i) => { if (places[i].bottom >= top && places[i].top <= bottom) this.update(row); });
    }
    if (this.later) return;
    this.later = true;
    whenIdle(() => this.drawSome());
  }

  drawSome() {
    const old = this.rows.filter(row => row.shown !== row.wanted);
    old.slice(0, kIdleRows).forEach(row => this.update(row));
    this.later = old.length > kIdleRows;
    if (this.later) whenIdle(() => this.drawSome());
  }

  update(row) {
    if (row.shown === row.wanted) return;
    row.shown = row.wanted;
    words(row.wanted).forEach(([text, kind], i) => {
      const cell = row.element.children[i], name = [kInstanceColumns[i][1], kind].filter(Boolean).join(" ");
      if (cell.textContent !== text) cell.textContent = text;
      if (cell.className !== name) cell.className = name;
    });
  }
}

/// What the cells of an instance say, and how good that is.
function words(one) {
  const bad = !["up", "done", "not asked"].includes(one.state), waits = one.idle_s >= 0.5 && (one.waits_for || one.why);
  return [
    [one.name], [one.node], [one.state, one.state === "starting" ? "warn" : bad ? "bad" : one.state === "up" ? "good" : ""],
    [one.restarts ? `${one.restarts} of ${one.limit}` : "0", one.restarts ? "warn" : ""], [one.version < 0 ? "" : count(one.version)],
    [one.staleness < 0 ? "" : count(one.staleness)], [waits ? duration(one.idle_s) : ""],
    [[waits ? one.waits_for : "", one.why, bad ? one.error : ""].filter(Boolean).join(": ")],
  ];
}
