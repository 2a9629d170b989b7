// The page of one run: what the server tells (page/messages.hpp) as numbers, charts, a drawing and tables. Names that come
// from a run become text, never markup.
"use strict";

const $ = id => document.getElementById(id);
const kLogLines = 400;

/// A table of the server by columns; rows are added as they come.
class Table {
  constructor() { this.names = []; this.columns = []; }
  take(news) {
    if (news.all) {
      this.names = news.names;
      this.columns = news.columns;
    } else {
      news.columns.forEach((column, i) => { for (const cell of column) this.columns[i].push(cell); });
    }
  }
  has(name) { return this.names.includes(name); }
  column(name) { return this.columns[this.names.indexOf(name)] || []; }
  newest(name) {
    const column = this.column(name);
    for (let i = column.length; i-- > 0;) if (column[i] !== null) return column[i];
    return null;
  }
}

/// What a run has said: tables and the newest of everything else.
class Run {
  constructor() { this.metrics = new Table(); this.evaluations = new Table(); this.log = []; this.pictures = []; this.seen = null; this.summary = null; this.config = ""; }
  take(news) {
    this.changed = {rows: Boolean(news.metrics || news.evaluations), log: Boolean(news.log), pictures: Boolean(news.pictures), config: "config" in news};
    if (news.metrics) this.metrics.take(news.metrics);
    if (news.evaluations) this.evaluations.take(news.evaluations);
    if (news.log) this.log = this.log.concat(news.log).slice(-kLogLines);
    for (const name of ["run", "directory", "state", "notes", "seen", "summary", "pictures", "config"]) if (name in news) this[name] = news[name];
  }
}

const kEvaluationNames = {return: "Return", frechet_distance: "Fréchet distance", inception_score: "Inception score", accuracy: "Accuracy", top5_accuracy: "Top-5 accuracy", loss: "Test loss"};
const without = name => name.replace(/^[^/]*\//, "");
const roleOf = name => name.replace(/\/.*$/, "");

const plain = name => { const text = without(name).replaceAll("_", " "); return text[0].toUpperCase() + text.slice(1); };

/// Charts of metrics.csv: which columns go together, and what their legend says. The first that fits takes a column; where
/// `title` is a function, columns with the same title go together.
const kCharts = [
  {title: "Env steps per second", match: /(^|-)actor\/steps_per_s$/, label: roleOf},
  {title: "Training steps per second", match: /\/(steps_per_s|batches_per_s|applied_per_s)$/, label: name => /\/steps_per_s$/.test(name) ? roleOf(name) : name},
  {title: "Input", unit: "images/s that it could make", match: /\/input_images_per_second$/, label: roleOf},
  {title: plain, match: /loss$/, label: roleOf},
  {title: "Staleness", unit: "versions behind", match: /\/staleness_(p50|p90|p99|mean)$/, label: name => without(name).replace("staleness_", "")},
  {title: "Samples per insert", ratio: [/\/samples_per_s$/, "samples_per_s", "inserts_per_s"]},
  {title: "Replay inserts", unit: "items per second", match: /\/inserts_per_s$/, label: roleOf},
  {title: "Replay samples", unit: "items per second", match: /\/samples_per_s$/, label: roleOf},
  {title: "Replay contents", unit: "items", match: /\/items$/, label: roleOf},
  {title: "Replay memory", format: bytes, match: /^(.*-)?(replay|learner)\/bytes$/, label: roleOf},
  {title: plain, match: /\/(q_mean|accuracy|entropy|temperature|alpha)$/, label: roleOf},
  {title: "Logits", match: /\/(real_logit|fake_logit)$/, label: name => without(name).replace("_logit", "") + ", " + roleOf(name)},
  {title: "Errors and drops", unit: "per second", match: /\/(env_failures|steps_dropped|rejected|requests_refused|journal_lost_rows|journal_failures|lost_pushes|not_finite|dropped_stale|dropped_unknown|refused|episodes_unreported)_per_s$/, label: name => name.replace("_per_s", ""), silent: true},
  {title: "Waiting for newer parameters", unit: "instances, on average", match: /\/stale_wait_s_per_s$/, label: roleOf, silent: true},
];

class RunPage {
  constructor() {
    this.run = new Run();
    this.charts = new Map();
    this.topology = new Topology($("topology"));
    this.instances = new Instances($("instances"));
    this.axis = "wall_s";
    for (const button of document.querySelectorAll("#axis button")) {
      button.onclick = () => { this.axis = button.dataset.axis; this.drawCharts(); };
    }
    document.querySelectorAll("details")[0].addEventListener("toggle", () => this.drawCharts());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const chart of this.charts.values()) chart.names = "";
      this.drawCharts();
    });
  }

  take(news) {
    this.run.take(news);
    const run = this.run;
    document.title = run.run + " – Troupe";
    $("name").textContent = run.run;
    $("directory").textContent = run.directory;
    $("state").textContent = run.state;
    $("state").className = "badge " + run.state.split(" ")[0];
    this.drawNumbers();
    this.drawAlarms();
    this.drawSeen();
    if (run.changed.rows) this.drawCharts();
    if (run.changed.pictures) this.drawPictures();
    if (run.changed.log) this.drawLog();
    if (run.changed.config) $("config").textContent = run.config;
  }

  drawNumbers() {
    const {metrics, evaluations, seen} = this.run, cards = [];
    const card = (label, value, note, best) => cards.push(element("div", best ? {className: "best"} : {}, element("b", {}, value), element("span", {}, note ? label + " · " + note : label)));
    for (const [name, label] of Object.entries(kEvaluationNames)) {
      const value = evaluations.newest(name);
      if (value === null || (name === "loss" && cards.length)) continue;
      const all = evaluations.column(name).filter(one => one !== null), falls = /distance|loss/.test(name);
      card(label, count(value), "best " + count(all.reduce((a, b) => falls ? Math.min(a, b) : Math.max(a, b))), cards.length === 0);
    }
    const wall = metrics.newest("wall_s");
    if (wall !== null) card("time", duration(wall), this.left());
    const sum = suffix => metrics.names.filter(name => name.endsWith(suffix)).reduce((all, name) => all + (metrics.newest(name) || 0), 0);
    if (metrics.newest("env_steps")) card("env steps", count(metrics.newest("env_steps")), count(sum("actor/steps_per_s")) + "/s");
    const rates = metrics.names.filter(name => name.endsWith("/steps_per_s") && !name.endsWith("actor/steps_per_s"));
    if (metrics.newest("learner_steps") || rates.length) {
      card("training steps", count(metrics.newest("learner_steps")), count(rates.reduce((all, name) => all + (metrics.newest(name) || 0), 0)) + "/s");
    }
    const stale = metrics.names.find(name => name.endsWith("/staleness_p90"));
    if (stale) card("staleness p90", count(metrics.newest(stale)), "versions");
    if (seen) {
      const restarts = seen.roles.reduce((all, role) => all + role.restarts, 0);
      card("restarts", count(restarts), count(seen.instances_count) + " instances");
      if (seen.nodes.length > 1) card("nodes up", seen.nodes.filter(node => node.state === "up").length + " of " + seen.nodes.length);
    }
    $("numbers").replaceChildren(...cards);
  }

  /// "3m left", by the nearest limit of the configuration at the present rates.
  left() {
    const {metrics, config, state} = this.run;
    if (state !== "training") return "";
    const limit = name => { const found = new RegExp("^" + name + "\\s*=\\s*([0-9.e_]+)", "m").exec(config); return found ? Number(found[1].replaceAll("_", "")) : 0; };
    const rest = [], minutes = limit("max_minutes");
    if (minutes > 0) rest.push(minutes * 60 - metrics.newest("wall_s"));
    for (const [name, rate] of [["env_steps", "actor/steps_per_s"], ["learner_steps", "learner/steps_per_s"]]) {
      const most = limit("max_" + name);
      if (most > 0 && metrics.newest(rate) > 0) rest.push((most - metrics.newest(name)) / metrics.newest(rate));
    }
    return rest.length ? duration(Math.min(...rest)) + " left" : "";
  }

  drawAlarms() {
    const {seen, notes, state} = this.run, training = state === "training";
    const alarms = seen && training ? seen.alarms : [];
    const lines = alarms.concat(notes);
    if (seen && training && seen.age_s > 30) lines.push(`the newest word of its chief is ${duration(seen.age_s)} old`);
    $("alarms").hidden = lines.length === 0;
    $("alarms").classList.toggle("note", alarms.length === 0);
    $("alarms").replaceChildren(...lines.map(line => element("p", {}, line)));
  }

  drawSeen() {
    const seen = this.run.seen;
    if (!seen) return $("topology").replaceChildren(element("p", {className: "quiet"}, "This run has recorded no topology: it has not begun, or is of an older release."));
    $("age").textContent = this.run.state === "training" ? "" : `as it was ${duration(seen.age_s)} ago, when the run was last there`;
    if (seen.channels.length) this.topology.show(seen);
    const groups = seen.groups.map(group => `${group.name}: a group, ${group.members} of ${group.seats} members` + (group.epoch ? `, epoch ${group.epoch}` : "") +
      (group.missing.length ? `; missing: ${group.missing.map(one => `${one.name} (${one.state})`).join(", ")}` : "") + (group.broke ? `; last failure: ${group.broke}` : ""));
    $("waits").replaceChildren(...seen.waits.concat(groups).map(line => {
      const [who, ...rest] = line.split(" ");
      return element("li", {}, element("b", {}, who), " " + rest.join(" "));
    }));
    if (seen.waits_count > seen.waits.length) $("waits").append(element("li", {}, `and ${seen.waits_count - seen.waits.length} more`));
    this.instances.show(seen);
  }

  chart(parent, spec) {
    if (!this.charts.has(spec.title)) this.charts.set(spec.title, new Chart(parent, spec));
    return this.charts.get(spec.title);
  }

  drawCharts() {
    const {metrics, evaluations} = this.run, used = new Set(["wall_s", "env_steps", "learner_steps"]);
    const nothingTold = axis => axis !== "wall_s" && !metrics.newest(axis);
    if (nothingTold(this.axis)) this.axis = "wall_s";
    for (const button of document.querySelectorAll("#axis button")) {
      button.classList.toggle("chosen", button.dataset.axis === this.axis);
      button.hidden = nothingTold(button.dataset.axis);
    }
    const x = metrics.column(this.axis), sources = evaluations.column("source");
    const at = evaluations.column(this.axis === "learner_steps" ? "step" : this.axis);
    for (const [name, title] of Object.entries(kEvaluationNames)) {
      if (!evaluations.has(name) && !(name === "return" && metrics.names.some(one => one.endsWith("/episode_return")))) continue;
      const series = [...new Set(sources)].map(source => {
        const rows = evaluations.column(name).map((value, i) => i).filter(i => sources[i] === source && evaluations.column(name)[i] !== null);
        return {label: source, x: rows.map(i => at[i]), y: rows.map(i => evaluations.column(name)[i])};
      });
      if (name === "return") {
        for (const training of metrics.names.filter(one => one.endsWith("/episode_return"))) {
          used.add(training);
          series.push({label: roleOf(training) + ", exploring", x, y: metrics.column(training), thin: true});
        }
      }
      this.chart($("charts"), {title}).show(this.axis, series);
    }
    for (const spec of kCharts) {
      const groups = new Map();
      const add = (name, y) => {
        const title = typeof spec.title === "function" ? spec.title(name) : spec.title;
        if (!groups.has(title)) groups.set(title, []);
        groups.get(title).push({label: spec.label ? spec.label(name) : roleOf(name), x, y});
      };
      for (const name of metrics.names) {
        if (spec.ratio) {
          if (!spec.ratio[0].test(name)) continue;
          const inserts = metrics.column(name.replace(spec.ratio[1], spec.ratio[2]));
          const y = metrics.column(name).map((value, i) => inserts[i] > 0 ? value / inserts[i] : null);
          if (y.some(value => value > 0)) add(name, y);
        } else if (!used.has(name) && spec.match.test(name)) {
          used.add(name);
          if (!spec.silent || metrics.column(name).some(value => value)) add(name, metrics.column(name));
        }
      }
      for (const [title, series] of groups) this.chart($("charts"), {...spec, title}).show(this.axis, series.slice(0, 12));
    }
    if (!document.querySelectorAll("details")[0].open) return;
    for (const name of metrics.names.filter(name => !used.has(name)).slice(0, 60)) {
      this.chart($("others"), {title: name}).show(this.axis, [{label: "", x, y: metrics.column(name)}]);
    }
  }

  drawPictures() {
    const sources = new Map();
    for (const path of this.run.pictures) {
      const folder = path.replace(/\/[^/]*$/, "");
      if (!sources.has(folder)) sources.set(folder, []);
      sources.get(folder).push(path);
    }
    $("pictures").hidden = sources.size === 0;
    const figures = [...sources].map(([folder, paths]) => {
      const stills = paths.filter(path => /step-\d+\.png$/.test(path)), films = paths.filter(path => !stills.includes(path));
      const shown = [];
      if (stills.length) {
        const picture = element("img", {alt: "samples of " + folder}), caption = element("figcaption");
        const slider = element("input", {type: "range", min: 0, max: stills.length - 1, value: stills.length - 1, "aria-label": "step"});
        const turn = () => {
          const path = stills[Number(slider.value)];
          picture.src = this.file(path);
          caption.textContent = `${folder}, step ${Number(/(\d+)\.png$/.exec(path)[1]).toLocaleString("en")}`;
        };
        slider.oninput = turn;
        turn();
        shown.push(element("figure", {}, caption, picture, slider));
      }
      for (const path of films) shown.push(element("figure", {}, element("figcaption", {}, path), element("img", {src: this.file(path), alt: path})));
      return shown;
    });
    document.querySelector("#pictures .pictures").replaceChildren(...figures.flat());
  }

  file(path) { return `/file?run=${this.number}&path=${encodeURIComponent(path)}`; }

  drawLog() {
    const log = $("log"), follows = log.scrollTop + log.clientHeight >= log.scrollHeight - 20;
    log.replaceChildren(...this.run.log.map(line => element("span", {className: /error|critical/i.test(line.slice(0, 60)) ? "error" : /warn/i.test(line.slice(0, 60)) ? "warning" : ""}, line + "\n")));
    if (follows) log.scrollTop = log.scrollHeight;
  }
}

/// One stream at a time: of the run in the address (#2), or of all when there are several.
class Streams {
  constructor(list) {
    this.list = list;
    this.page = null;
    this.several = null;
    addEventListener("hashchange", () => this.open());
    this.open();
  }

  open() {
    if (this.source) this.source.close();
    const chosen = /^#\d+$/.test(location.hash) ? Number(location.hash.slice(1)) : this.list.runs.length === 1 ? 0 : null;
    if (this.page !== null || this.several !== null) return location.reload();  // a fresh page has no charts of another run
    const one = chosen !== null && chosen < this.list.runs.length;
    $("run").hidden = !one;
    $("several").hidden = one;
    $("back").hidden = !one || this.list.runs.length === 1;
    if (one) {
      this.page = new RunPage();
      this.page.number = chosen;
    } else {
      this.several = new SeveralPage($("several"), this.list);
    }
    this.source = new EventSource(one ? "/api/live?run=" + chosen : "/api/several");
    this.source.onmessage = event => {
      $("link").textContent = "live";
      (this.page || this.several).take(JSON.parse(event.data));
      document.body.dataset.ticks = Number(document.body.dataset.ticks || 0) + 1;
    };
    this.source.onerror = () => {
      $("link").textContent = "not connected: troupe watch has ended, or all its places are taken";
      // A new connection is told all anew.
      if (this.source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 10000);
    };
  }
}

fetch("/api/runs").then(answer => answer.json()).then(list => new Streams(list));
