// The topology, drawn: a box for each role, an arrow for each channel with what waits in it and what goes through it.
"use strict";

const kBox = {width: 160, height: 68, gapX: 124, gapY: 26}, kLane = 24, kBar = 34;
const kSvg = "http://www.w3.org/2000/svg";

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(kSvg, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/// Columns from left to right, along the channels as far as they have no cycle: streams first, then calls, then
/// parameters, which mostly go back.
function columnsOf(roles, channels) {
  const names = roles.map(role => role.name), edges = [];
  const reaches = (from, to) => from === to || edges.some(edge => edge[0] === from && reaches(edge[1], to));
  for (const kind of ["stream", "request", "latest"]) {
    for (const channel of channels) {
      if (channel.kind !== kind || !names.includes(channel.from) || !names.includes(channel.to)) continue;
      if (!reaches(channel.to, channel.from)) edges.push([channel.from, channel.to]);
    }
  }
  const column = Object.fromEntries(names.map(name => [name, 0]));
  for (let round = 0; round < names.length; ++round) {
    for (const [from, to] of edges) column[to] = Math.max(column[to], column[from] + 1);
  }
  return column;
}

class Topology {
  constructor(parent) {
    this.parent = parent;
    this.shape = "";
  }

  show(seen) {
    const roles = seen.roles, channels = seen.channels;
    const shape = JSON.stringify([roles.map(role => role.name), channels.map(one => [one.from, one.from_port, one.to, one.to_port])]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.layOut(roles, channels);
    }
    roles.forEach((role, i) => this.fillRole(this.boxes[i], role, channels));
    channels.forEach((channel, i) => this.fillChannel(this.arrows[i], channel));
  }

  layOut(roles, channels) {
    // Whoever only takes, of several (metrics), is a bar below all others.
    const isBar = role => !channels.some(one => one.from === role.name) && new Set(channels.filter(one => one.to === role.name).map(one => one.from)).size > 1;
    const bars = roles.filter(isBar), upper = roles.filter(role => !isBar(role));
    const column = columnsOf(upper, channels), at = {};
    const edges = channels.filter(one => one.from in column && one.to in column);
    const span = one => column[one.to] - column[one.from];
    const near = edges.filter(one => span(one) === 1), over = edges.filter(one => span(one) > 1), back = edges.filter(one => span(one) <= 0);
    const wide = Math.max(0, ...Object.values(column)) + 1;
    const heightOf = role => Math.max(kBox.height, 40 * Math.max(near.filter(one => one.from === role.name).length, near.filter(one => one.to === role.name).length));
    const columns = Array.from({length: wide}, (_, c) => upper.filter(role => column[role.name] === c));
    const tallOf = list => list.reduce((all, role) => all + heightOf(role) + kBox.gapY, -kBox.gapY);
    const tall = Math.max(...columns.map(tallOf)), top = 16 + over.length * kLane;
    columns.forEach((list, c) => {
      // By where what comes in comes from, so that fewer arrows cross.
      const pull = role => {
        const from = near.filter(one => one.to === role.name && at[one.from]).map(one => at[one.from].y);
        return from.length ? from.reduce((all, y) => all + y) / from.length : 0;
      };
      let y = top + (tall - tallOf(list)) / 2;
      for (const [, role] of list.map(role => [pull(role), role]).sort((one, other) => one[0] - other[0])) {
        at[role.name] = {x: 10 + c * (kBox.width + kBox.gapX), y, width: kBox.width, height: heightOf(role)};
        y += heightOf(role) + kBox.gapY;
      }
    });
    const width = wide * (kBox.width + kBox.gapX) - kBox.gapX + 20, base = top + tall + 14 + back.length * kLane;
    bars.forEach((role, i) => { at[role.name] = {x: 10, y: base + 44 + i * (kBar + kBox.gapY + 20), width: width - 20, height: kBar}; });
    const height = bars.length ? base + 44 + bars.length * (kBar + kBox.gapY + 20) - kBox.gapY - 14 : base;
    const drawing = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": "roles and channels"});
    drawing.append(svg("defs", {}, svg("marker", {id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto"}, svg("path", {d: "M0 0 L8 4 L0 8 z"}))));
    const labels = svg("g");
    // Each arrow leaves and arrives at a place of its own.
    const share = (list, one, key) => {
      const mine = list.filter(other => other[key] === one[key]);
      return (mine.indexOf(one) + 1) / (mine.length + 1);
    };
    const lane = (one, list, y, side) => {
      const from = at[one.from], to = at[one.to], r = 8, up = side === "top";
      const x0 = from.x + from.width * (0.5 + 0.45 * share(list, one, "from") * (up ? 1 : -1) + (up ? 0 : 0.45)), x1 = to.x + to.width * (up ? 0.5 * share(list, one, "to") : 0.05 + 0.45 * share(list, one, "to"));
      const y0 = up ? from.y : from.y + from.height, y1 = up ? to.y - 2 : to.y + to.height + 2, turn = up ? r : -r, way = Math.sign(x1 - x0) || 1;
      return {d: `M${x0} ${y0} L${x0} ${y + turn} Q${x0} ${y} ${x0 + way * r} ${y} L${x1 - way * r} ${y} Q${x1} ${y} ${x1} ${y + turn} L${x1} ${y1}`, x: (x0 + x1) / 2, y: y - 5, inline: true};
    };
    const route = one => {
      const from = at[one.from], to = at[one.to];
      if (!from || !to) return null;
      if (bars.some(role => role.name === one.to)) {
        const list = channels.filter(other => other.to === one.to), x = from.x + from.width * share(list, one, "from");
        return {d: `M${x} ${from.y + from.height} L${x} ${to.y - 2}`, x: x + 6, y: to.y - 24, start: true};
      }
      if (over.includes(one)) return lane(one, over, 16 + over.indexOf(one) * kLane, "top");
      if (back.includes(one)) return lane(one, back, top + tall + 14 + back.indexOf(one) * kLane, "bottom");
      const order = (key, other) => near.filter(edge => edge[key] === one[key]).sort((a, b) => at[a[other]].y - at[b[other]].y);
      const place = (box, list) => box.y + box.height * (list.indexOf(one) + 1) / (list.length + 1);
      const x0 = from.x + from.width, y0 = place(from, order("from", "to")), x1 = to.x - 2, y1 = place(to, order("to", "from")), reach = (x1 - x0) / 2;
      return {d: `M${x0} ${y0} C${x0 + reach} ${y0} ${x1 - reach} ${y1} ${x1} ${y1}`, x: (x0 + x1) / 2, y: (y0 + y1) / 2 - 6};
    };
    this.arrows = channels.map(channel => {
      const way = route(channel);
      if (!way) return null;
      const path = svg("path", {d: way.d, class: channel.kind, "marker-end": "url(#tip)"});
      const label = svg("text", {x: way.x, y: way.y, class: "label", "text-anchor": way.start ? "start" : "middle"});
      const value = svg("tspan", way.inline ? {} : {x: way.x, dy: way.start ? 13 : 22});
      label.append(svg("tspan", {class: "port"}, channel.to_port), value);
      drawing.append(path);
      labels.append(label);
      return {path, label, value, inline: way.inline};
    });
    this.boxes = roles.map(role => {
      const {x, y, width, height} = at[role.name], bar = isBar(role), middle = y + height / 2;
      const title = svg("title"), name = svg("text", {x: x + 12, y: middle + (bar ? 5 : -11), class: "name"});
      const line = svg("text", {x: x + (bar ? 110 : 12), y: middle + (bar ? 5 : 7), class: "small"}), say = svg("text", {x: x + (bar ? 300 : 12), y: middle + (bar ? 5 : 23), class: "small say"});
      const group = svg("g", {class: "role"}, svg("rect", {x, y, width, height, rx: 7}), name, line, say, title);
      drawing.append(group);
      return {group, name, line, say, title};
    });
    drawing.append(labels);
    this.parent.replaceChildren(drawing, element("p", {className: "key"}, "— stream, lossless \u2003 – – newest value \u2003 ··· calls \u2003 On each arrow: messages per second, and how many wait at its end"));
  }

  fillRole(box, role, channels) {
    const up = (role.states.up || 0) + (role.states.done || 0), asked = !role.states["not asked"];
    const down = asked && up < role.instances && !role.states.starting;
    // Who has nothing to do may just be fast; who finds no room, or waits within a group, is held up.
    const held = role.waiting > 0 && (!role.waits_for || channels.some(one => one.from === role.name && one.from_port === role.waits_for));
    box.group.setAttribute("class", "role" + (down ? " down" : held ? " waits" : ""));
    box.name.textContent = short(role.name, 18) + (role.instances > 1 ? " ×" + count(role.instances) : "");
    const parts = [];
    if (asked) parts.push(up === role.instances ? "up" : `${up} of ${role.instances} up`);
    if (role.restarts) parts.push(role.restarts + (role.restarts === 1 ? " restart" : " restarts"));
    if (role.version >= 0) parts.push("v" + count(role.version) + (role.staleness > 0 ? " −" + count(role.staleness) : ""));
    box.line.textContent = parts.join(" · ");
    const stuck = / for ([0-9.]+) s$/.exec(role.why);
    const others = role.instances > 1 ? `${role.waiting} of ${role.instances} wait` : "waits";
    box.say.textContent = down ? Object.entries(role.states).filter(([state]) => state !== "up" && state !== "done").map(([state, n]) => (role.instances > 1 ? n + " " : "") + state).join(", ")
      : role.waiting ? short(`${others} ${duration(role.longest_idle_s)}` + (role.waits_for ? " on " + role.waits_for : ""), 25) : stuck && stuck[1] > 1 ? short(role.why.replace(/ of step \d+/, ""), 25) : "";
    box.title.textContent = [role.name, ...Object.entries(role.states).map(([state, n]) => `${n} ${state}`), role.longest && `${role.longest} waits ${duration(role.longest_idle_s)}`, role.why, role.error].filter(Boolean).join("\n");
  }

  fillChannel(arrow, channel) {
    if (!arrow) return;
    const held = channel.producers_waiting > 0;  // a consumer that waits is in want; a producer is held up
    arrow.path.setAttribute("class", channel.kind + (held ? " held" : ""));
    arrow.path.setAttribute("stroke-width", 1 + Math.min(3, Math.log10(1 + channel.frames_per_s)));
    arrow.label.setAttribute("class", "label" + (held ? " held" : ""));
    const depth = held ? " · full" : channel.depth > 0 ? " · " + count(channel.depth) + " wait" : "";
    arrow.value.textContent = (arrow.inline ? "\u2002" : "") + count(channel.frames_per_s) + "/s" + depth;
  }
}

const short = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
