// All groups: searched, filtered, sorted; as they are, or as they were.

import { h, promptly, replace, s, throttled } from "dashboard/dom";
import * as data from "dashboard/data";
import { ago, count, duration, moment, number, roughly, short } from "dashboard/format";
import { address, amend } from "dashboard/route";
import { TimeBar } from "dashboard/time_bar";
import { ORDER, VERDICTS, state, verdict } from "dashboard/verdicts";
import { VirtualList } from "dashboard/virtual";

const COLUMNS = [
  ["group_id", "Group", "name"],
  ["severity", "Health", "health"],
  ["state", "State", "group-state"],
  ["members", "Members", "number"],
  ["generation", "Gen.", "number gen"],
  ["lag", "Lag", "number"],
  ["lag_ms", "Behind", "number behind"],
  ["last_rebalance_ms", "Last rebalance", "cause"],
  ["rebalances", "Rebalances", "spark"],
];
const DESCENDING = new Set(["severity", "members", "generation", "lag", "lag_ms", "last_rebalance_ms", "rebalances"]);
const SPARK = { width: 96, height: 20, bins: 24 };
const narrow = matchMedia("(max-width: 760px)");

export function groupsView(app, _, parameters) {
  let rows = [];
  let shown = [];
  let topics = new Map();
  let onDisk = 0;
  const options = { q: "", show: "", sort: "severity", down: "", at: null };

  const search = h("input", { type: "search", placeholder: "Search groups, topics, members' names in causes", "aria-label": "Search groups", oninput: throttled(80, () => set({ q: search.value })) });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Filter by health" });
  const tally = h("p", { class: "tally", "aria-live": "polite" });
  const list = new VirtualList({
    label: "Groups", columns: heads(), row, rowHeight: () => (narrow.matches ? (options.at === null ? 84 : 50) : 46),
  });
  const timeBar = new TimeBar({ first: app.overview.first_ms, last: Math.max(app.clock(), app.overview.last_ms), onTime: (at) => set({ at }) });
  const element = h("div", { class: "groups" },
    h("h1", { class: "hidden" }, "Groups"),
    h("div", { class: "tools" }, search, chips, h("a", { href: address("readiness") }, "Ready for KIP-848?"), tally), list.element, timeBar.element);

  function heads() {
    return COLUMNS.map(([key, title, kind]) => h("span", { class: kind, role: "columnheader", "data-key": key, "aria-sort": "none" },
      h("button", { type: "button", onclick: () => sortBy(key) }, title)));
  }

  function sortBy(key) {
    const same = options.sort === key;
    const down = same ? options.down !== "yes" : DESCENDING.has(key);
    set({ sort: key, down: down ? "yes" : "no" });
  }

  function set(changes) {
    const otherTime = "at" in changes && changes.at !== options.at;
    Object.assign(options, changes);
    amend({ q: options.q, show: options.show, sort: options.sort === "severity" ? "" : options.sort, down: options.down, at: options.at });
    if (otherTime) load();
    else draw();
  }

  const load = promptly(60, async () => {
    const asked = options.at;
    const answer = await data.groups(asked);
    if (asked !== options.at) return;
    rows = answer.groups;
    onDisk = answer.groups_left_out ?? 0;
    draw();
    if (asked === null) mark(rows, answer.now_ms);
    else if (timeBar.marks.length === 0) {
      const present = await data.groups();
      mark(present.groups, present.now_ms);
      if (asked === options.at) draw();
    }
  });

  function mark(present, now) {
    topics = new Map(present.map((row) => [row.group_id, row.topics]));
    timeBar.setMarks(present.flatMap((row) => row.latest_rebalances_ms), now);
  }

  function draw() {
    const words = options.q.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = words.length === 0 ? rows : rows.filter((group) => {
      const text = `${group.group_id} ${(group.topics ?? topics.get(group.group_id) ?? []).join(" ")} ${group.last_rebalance_cause ?? ""} ${group.member ?? ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const past = options.at !== null;
    drawChips(matching, past);
    shown = options.show ? matching.filter((group) => (past ? group.state : group.verdict) === options.show) : matching.slice();
    shown.sort(comparison());
    for (const head of list.head.children) head.setAttribute("aria-sort", head.dataset.key === options.sort ? (isDown() ? "descending" : "ascending") : "none");
    replace(tally, past ? h("strong", {}, `As of ${moment(options.at)} UTC: `) : null, shown.length === rows.length ? count(rows.length, "group") : `${number(shown.length)} of ${count(rows.length, "group")}`,
      onDisk > 0 ? `; ${number(onDisk)} more on disk` : null, onDisk > 0 && options.q ? [", ", h("a", { href: address("group", options.q) }, `open “${options.q}”`)] : null);
    element.classList.toggle("past", past);
    list.show(shown);
  }

  function isDown() {
    return options.down ? options.down === "yes" : DESCENDING.has(options.sort);
  }

  function comparison() {
    const key = options.sort;
    const sign = isDown() ? -1 : 1;
    const value = (row) => row[key] ?? (DESCENDING.has(key) ? -1 : "");
    return (left, right) => {
      const a = value(left);
      const b = value(right);
      if (a !== b) return a < b ? -sign : sign;
      if (key === "severity" && left.verdict !== right.verdict) return ORDER.indexOf(left.verdict) - ORDER.indexOf(right.verdict);
      return left.group_id < right.group_id ? -1 : 1;
    };
  }

  function drawChips(matching, past) {
    const counts = new Map();
    for (const group of matching) counts.set(past ? group.state : group.verdict, (counts.get(past ? group.state : group.verdict) ?? 0) + 1);
    const kinds = past ? [...counts.keys()].sort() : ORDER.filter((kind) => counts.has(kind));
    const chip = (kind, content, total) => h("button", { type: "button", class: "chip", "aria-pressed": String(options.show === kind), onclick: () => set({ show: options.show === kind ? "" : kind }) }, content, h("span", { class: "count" }, number(total)));
    replace(chips, chip("", "all", matching.length), kinds.map((kind) => chip(kind, past ? state(kind) : verdict(kind), counts.get(kind))));
  }

  function row(group, position) {
    const past = options.at !== null;
    const now = past ? options.at : app.clock();
    const link = h("a", { href: address("group", group.group_id, { at: options.at }), tabindex: "-1" }, group.group_id);
    const cell = (kind, ...content) => h("span", { class: kind, role: "cell" }, content);
    return h("div", { class: `row ${group.severity === 3 ? "alarm" : ""}`, role: "row", onclick: (event) => { if (!event.target.closest("a")) { list.selected = position; link.click(); } } },
      cell("name", link, h("small", {}, (group.topics ?? topics.get(group.group_id) ?? []).join(", "))),
      cell("health", past ? "" : verdict(group.verdict), h("small", { title: group.reason }, group.reason)),
      cell("group-state", state(group.state), h("small", {}, group.state === "none" ? "" : `for ${roughly(now - group.state_since_ms)}`)),
      cell("number members", number(group.members), h("small", { class: "unit" }, group.members === 1 ? "member" : "members")),
      cell("number gen", number(group.generation), group.type && group.type !== "classic" ? h("small", {}, "epoch") : null),
      cell("number lag", short(group.lag), h("small", { class: "unit" }, "lag"), beside(group)),
      cell("number behind", group.lag_ms === null || group.lag_ms === undefined ? "–" : `${group.lag_ms_is_at_least ? ">" : ""}${roughly(group.lag_ms)}`),
      cell("cause", group.last_rebalance_ms ? h("span", {}, ago(group.last_rebalance_ms, now), group.last_rebalance_duration_ms !== null ? `, took ${duration(group.last_rebalance_duration_ms)}` : ["Stable", "Empty", "Dead"].includes(group.state) ? "" : ", not over") : "–", h("small", { title: group.last_rebalance_cause }, group.last_rebalance_cause)),
      cell("spark", sparkline(group.latest_rebalances_ms ?? [], now), h("span", { class: "total" }, short(group.rebalances))),
    );
  }

  /** What the lag does not count. */
  function beside(group) {
    if (group.lost) return h("small", { class: "bad", title: `${count(group.lost, "message")} deleted before they were read` }, `${short(group.lost)} lost`);
    if (group.partitions_beyond_end) return h("small", { class: "bad", title: "Committed offsets lie beyond the end of the log: the topic was made anew, or truncated." }, "beyond end");
    return group.uncommitted_messages ? h("small", { title: `${count(group.uncommitted_partitions, "partition")} without a commit: ${count(group.uncommitted_messages, "message")}, of which nobody knows how many wait` }, `+ up to ${short(group.uncommitted_messages)}`) : null;
  }

  /** Rebalances over the window of the verdicts, a bar for each part of it. */
  function sparkline(starts, now) {
    const span = app.overview.verdict_window_ms;
    const bins = new Array(SPARK.bins).fill(0);
    for (const start of starts) {
      const bin = Math.floor(((start - (now - span)) / span) * SPARK.bins);
      if (bin >= 0 && bin < SPARK.bins) bins[bin] += 1;
    }
    const recent = bins.reduce((sum, rebalances) => sum + rebalances, 0);
    const most = Math.max(3, ...bins);
    const step = SPARK.width / SPARK.bins;
    const text = `${count(recent, "rebalance")} in the last ${duration(span)}`;
    return s("svg", { class: "sparkline", width: SPARK.width, height: SPARK.height, viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, preserveAspectRatio: "none", role: "img", "aria-label": text },
      s("title", {}, text),
      s("line", { x1: 0, x2: SPARK.width, y1: SPARK.height - 0.5, y2: SPARK.height - 0.5 }),
      bins.map((rebalances, at) => rebalances && s("rect", { x: at * step, width: step - 1, y: SPARK.height - (rebalances / most) * SPARK.height, height: (rebalances / most) * SPARK.height })));
  }

  function take(changes) {
    if (options.at !== null) return;
    const byId = new Map(changes.map((change) => [change.group_id, change]));
    rows = rows.map((group) => {
      const changed = byId.get(group.group_id);
      byId.delete(group.group_id);
      return changed ?? group;
    });
    rows.push(...byId.values());
    draw();
  }

  function read(given) {
    options.q = given.get("q") ?? "";
    options.show = given.get("show") ?? "";
    options.sort = given.get("sort") || "severity";
    options.down = given.get("down") ?? "";
    options.at = given.get("at") ? Number(given.get("at")) : null;
    search.value = options.q;
    timeBar.set(options.at);
  }

  narrow.addEventListener("change", draw);
  read(parameters);
  load();
  return {
    element,
    rows: take,
    reload: load,
    restyle: () => { timeBar.draw(); draw(); },
    amended: (given) => { read(given); load(); },
    key: (event) => {
      if (event.key === "Escape") timeBar.move(null);
      else if ("jk".includes(event.key) || event.key.startsWith("Arrow") || event.key === "Enter") {
        if (event.target.closest?.("a, button, input, .scroller")) return;
        list.element.focus();
        list.key({ key: event.key, target: list.element, preventDefault: () => event.preventDefault() });
      }
    },
    close: () => {
      list.close();
      timeBar.close();
      narrow.removeEventListener("change", draw);
    },
  };
}
