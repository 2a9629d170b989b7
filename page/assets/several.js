// Several runs side by side, or a sweep: the curves of settings with their intervals, those of single runs, and a table.
"use strict";

const kKeys = ["return", "frechet_distance", "inception_score", "accuracy", "loss"];

class SeveralPage {
  constructor(parent, list) {
    this.list = list;
    this.tables = list.runs.map(() => new Table());
    this.charts = new Map();
    this.axis = "env_steps";
    document.title = list.title + " – Troupe";
    $("name").textContent = list.title;
    this.note = element("section", {className: "alarms note"});
    this.note.hidden = true;
    const bar = element("div", {className: "bar"}, "x axis:");
    this.buttons = [["env_steps", "env steps"], ["wall_s", "time"]].map(([axis, text]) => {
      const button = element("button", {}, text);
      button.onclick = () => { this.axis = axis; this.draw(); };
      bar.append(button);
      return [axis, button];
    });
    this.groups = element("div", {className: "grid wide"});
    this.settings = element("div", {className: "scroll"});
    this.table = element("div");
    this.settingsCard = element("section", {className: "card wide"}, element("h2", {}, "Settings", element("small", {}, "interquartile means of the final returns, 95 % intervals")), this.settings);
    this.settingsCard.hidden = true;
    parent.append(this.note, bar, this.groups, this.settingsCard, element("section", {className: "card wide"}, element("h2", {}, "Runs"), this.table));
  }

  take(news) {
    this.runs = news.runs;
    news.runs.forEach((run, i) => { if (run.evaluations) this.tables[i].take(run.evaluations); });
    if (news.groups) this.compared = news.groups;
    this.note.hidden = !news.note;
    this.note.textContent = news.note;
    const training = news.runs.filter(run => run.state === "training").length, ended = news.runs.filter(run => run.state === "ended").length;
    $("state").textContent = `${ended} of ${news.runs.length} ended` + (training ? `, ${training} training` : "");
    $("state").className = "badge" + (training ? " training" : "");
    this.draw();
  }

  draw() {
    for (const [axis, button] of this.buttons) button.classList.toggle("chosen", axis === this.axis);
    this.drawGroups();
    this.drawSingle();
    this.drawTable();
  }

  chart(title, unit) {
    if (!this.charts.has(title)) {
      const chart = new Chart(this.groups, {title, unit});
      if (unit) this.groups.prepend(chart.card);  // what all say together comes first, and later
      this.charts.set(title, chart);
    }
    return this.charts.get(title);
  }

  drawGroups() {
    const groups = (this.compared || []).filter(group => group.by_env_steps.x.length > 1);
    const together = groups.some(group => group.runs > 1);
    for (const task of [...new Set(groups.map(group => group.task))]) {
      const series = groups.filter(group => group.task === task).map(group => {
        const curve = group["by_" + this.axis], band = curve.low.some(value => value !== null);
        return {label: `${group.setting || "all"} (${group.runs})`, x: curve.x, y: curve.iqm, ...(band ? {low: curve.low, high: curve.high} : {})};
      });
      if (together) this.chart(task, "return: interquartile mean, 95 % interval").show(this.axis, series);
    }
    this.settingsCard.hidden = !together;
    if (!together) return;
    const head = ["task", "setting", "runs", "return", "interval", "time to threshold", "env steps/s"].map((name, i) => element("th", i > 1 ? {className: "number"} : {}, name));
    const rows = (this.compared || []).map(group => element("tr", {}, ...[
      [group.task], [group.setting || "–"], [group.runs, 1], [count(group.iqm), 1], [group.low === null ? "–" : `${count(group.low)} to ${count(group.high)}`, 1],
      [group.threshold_wall_s === null ? `${group.reached} of ${group.runs} reached ${count(group.threshold)}` : `${duration(group.threshold_wall_s)} to ${count(group.threshold)}`, 1], [count(group.env_steps_per_s), 1]
    ].map(([text, number]) => element("td", number ? {className: "number"} : {}, String(text)))));
    this.settings.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
  }

  /// The key that a table's evaluations are judged by.
  key(table) { return kKeys.find(name => table.has(name)); }

  drawSingle() {
    for (const key of kKeys) {
      const series = [];
      this.tables.forEach((table, i) => {
        if (this.key(table) !== key) return;
        const y = table.column(key), rows = y.map((value, row) => row).filter(row => y[row] !== null);
        series.push({label: this.list.runs[i], x: rows.map(row => table.column(this.axis)[row]), y: rows.map(row => y[row]), thin: this.tables.length > 7});
      });
      if (series.length) this.chart(kEvaluationNames[key] + " of each run").show(this.axis, series.slice(0, 40));
    }
  }

  drawTable() {
    const head = ["run", "state", "time", "env steps", "newest", "best"].map((name, i) => element("th", i > 1 ? {className: "number"} : {}, name));
    const rows = this.runs.map((run, i) => {
      const table = this.tables[i], key = this.key(table), all = key ? table.column(key).filter(value => value !== null) : [];
      const best = all.length ? all.reduce((a, b) => /distance|loss/.test(key) ? Math.min(a, b) : Math.max(a, b)) : null;
      return element("tr", {}, element("td", {}, element("a", {href: "#" + i}, run.name)), element("td", {className: run.state === "training" ? "good" : ""}, run.state),
        ...[duration(table.newest("wall_s")), count(table.newest("env_steps")), key ? `${kEvaluationNames[key]} ${count(table.newest(key))}` : "–", count(best)].map(text => element("td", {className: "number"}, text)));
    });
    this.table.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
  }
}
