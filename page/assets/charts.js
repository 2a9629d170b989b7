// Charts of the page: uPlot with this page's colours, axes for people, and a legend that shows the newest values.
"use strict";

const kColors = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8f00"];  // Okabe and Ito
const kHeight = 210;

const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/// "950", "12.3k", "1.2M": about three digits.
function count(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const size = Math.abs(value);
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return digits(value / unit) + name;
  }
  if (size > 0 && size < 1e-3) return value.toExponential(1);
  return digits(value);
}

function digits(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e4) return String(value);
  return size >= 100 ? value.toFixed(0) : String(Number(value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3)));
}

/// "7 s", "1m 05s", "2h 03m", "3d 4h".
function duration(seconds) {
  if (seconds === null || seconds === undefined || !isFinite(seconds)) return "–";
  const s = Math.max(0, Math.round(seconds)), two = n => String(n).padStart(2, "0");
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + "m " + two(s % 60) + "s";
  if (s < 86400) return Math.floor(s / 3600) + "h " + two(Math.floor(s / 60) % 60) + "m";
  return Math.floor(s / 86400) + "d " + Math.floor(s / 3600) % 24 + "h";
}

/// "640 kB", "1.2 GB".
const bytes = value => count(value).replace(/([kMGT]?)$/, " $1B");

const kAxes = {
  wall_s: {label: "time", format: value => duration(value).replace(/ 00[sm]$/, ""), steps: [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800]},
  env_steps: {label: "env steps", format: count},
  learner_steps: {label: "training steps", format: count},
};

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    name === "className" ? made.className = value : made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/// One chart in a card of its own. spec: {title, unit, format, band}: with a band, series come in threes: middle, low, high.
class Chart {
  constructor(parent, spec) {
    this.spec = spec;
    this.plot = null;
    this.names = "";
    this.wanted = null;
    this.seen = true;
    this.canvas = element("div");
    this.legend = element("div", {className: "legend"});
    const title = element("h2", {}, spec.title);
    if (spec.unit) title.append(element("small", {}, spec.unit));
    this.card = element("section", {className: "card chart", "data-chart": spec.title}, title, this.canvas, this.legend);
    parent.append(this.card);
    // What nobody sees is not drawn.
    new IntersectionObserver(seen => {
      this.seen = seen[seen.length - 1].isIntersecting;
      if (this.seen) this.draw();
    }).observe(this.card);
    new ResizeObserver(() => {
      const width = this.canvas.clientWidth;
      if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({width, height: kHeight});
    }).observe(this.canvas);
  }

  /// axis: a name of kAxes. series: [{label, x: [...], y: [...], low, high, thin}], each with its own x.
  show(axis, series) {
    this.wanted = {axis, series: series.filter(one => one.x.length > 0)};
    if (this.seen) this.draw();
  }

  draw() {
    if (!this.wanted) return;
    const {axis, series} = this.wanted;
    this.wanted = null;
    this.card.hidden = series.length === 0;
    if (series.length === 0) return;
    const tables = series.map(one => sorted(one));
    const data = tables.length === 1 ? tables[0] : uPlot.join(tables);
    const names = axis + "|" + series.map(one => one.label).join("|");
    if (this.plot && this.names === names) {
      this.plot.setData(data);
    } else {
      if (this.plot) this.plot.destroy();
      this.names = names;
      this.plot = new uPlot(this.options(axis, series), data, this.canvas);
    }
    this.label(series, tables);
  }

  options(axis, series) {
    const format = this.spec.format || count, x = kAxes[axis];
    const grid = {stroke: css("--grid"), width: 1}, ink = css("--quiet"), font = "11px system-ui, sans-serif";
    const lines = [{}], bands = [];
    series.forEach((one, i) => {
      const color = kColors[i % kColors.length];
      lines.push({stroke: color, width: one.thin ? 1 : 2, alpha: one.thin ? 0.55 : 1, spanGaps: true,
                  points: {show: one.x.length < 40 && !one.thin, size: 5, fill: color}});
      if (!one.low) return;
      const at = lines.length;
      lines.push({stroke: "transparent", spanGaps: true, points: {show: false}}, {stroke: "transparent", spanGaps: true, points: {show: false}});
      bands.push({series: [at + 1, at], fill: color + "30"});
    });
    const axisOf = (values, label, size) => ({stroke: ink, font, grid, ticks: {stroke: css("--grid"), width: 1, size: 4}, values: (plot, ticks) => ticks.map(values), label, labelFont: font, labelSize: 15, labelGap: 0, gap: 3, size});
    const options = {
      width: this.canvas.clientWidth || 400, height: kHeight, series: lines, bands,
      legend: {show: false}, cursor: {sync: {key: "x"}, points: {size: 6}, drag: {x: true, y: false}},
      scales: {x: {time: false}, y: {range: (plot, low, high) => spread(low, high)}},
      axes: [axisOf(x.format, x.label, 22), axisOf(format, null, 58)],
      hooks: {setCursor: [plot => this.point(plot)]},
    };
    if (x.steps) options.axes[0].incrs = x.steps;
    options.axes[0].space = 64;
    return options;
  }

  label(series, tables) {
    this.legend.replaceChildren(...series.map((one, i) => {
      const y = tables[i][1];
      let last = y.length - 1;
      while (last > 0 && y[last] === null) --last;
      const value = element("b", {}, (this.spec.format || count)(y[last]));
      one.value = value;
      one.newest = y[last];
      return element("span", {}, element("i", {className: "swatch-" + i % kColors.length}), one.label + " ", value);
    }));
    this.series = series;
  }

  /// The values under the cursor, which all charts share.
  point(plot) {
    let at = 1;
    for (const one of this.series || []) {
      const index = plot.cursor.idx, value = index === null || index === undefined ? null : plot.data[at][index];
      one.value.textContent = (this.spec.format || count)(value === null || value === undefined ? one.newest : value);
      at += one.low ? 3 : 1;
    }
  }
}

/// uPlot's table of one series, by x: [x, y] or [x, middle, low, high].
function sorted(one) {
  const columns = [one.x, one.y].concat(one.low ? [one.low, one.high] : []);
  let ascends = true;
  for (let i = 1; i < one.x.length && ascends; ++i) ascends = one.x[i] > one.x[i - 1];
  if (ascends) return columns;
  const order = one.x.map((x, i) => i).filter(i => one.x[i] !== null).sort((a, b) => one.x[a] - one.x[b] || a - b);
  const kept = order.filter((i, at) => at + 1 === order.length || one.x[i] !== one.x[order[at + 1]]);
  return columns.map(column => kept.map(i => column[i]));
}

/// Some room around the values, and zero where it is near.
function spread(low, high) {
  if (low === null || high === null || !isFinite(low) || !isFinite(high)) return [0, 1];
  if (low === high) return low === 0 ? [0, 1] : low > 0 ? [0, 2 * low] : [2 * low, 0];
  const room = (high - low) * 0.08;
  return [low >= 0 && low < 0.35 * high ? 0 : low - room, high <= 0 && high > 0.35 * low ? 0 : high + room];
}
