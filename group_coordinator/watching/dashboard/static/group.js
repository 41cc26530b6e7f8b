// One group: its swim-lanes, its rebalances, its members, and any moment of its past.

import { h, promptly, replace, throttled } from "dashboard/dom";
import * as data from "dashboard/data";
import { count, duration, moment, number, roughly } from "dashboard/format";
import { address, amend, go } from "dashboard/route";
import { Lanes } from "dashboard/lanes";
import { momentPanel } from "dashboard/moment";
import { rebalancePanel } from "dashboard/rebalance";
import { TABS, tabPanel } from "dashboard/tabs";
import { compareView } from "dashboard/compare";
import { KINDS, assignor, counts } from "dashboard/epochs";
import { state, verdict } from "dashboard/verdicts";

export function groupView(app, id, parameters) {
  let page = null;
  let lanes = null;
  let shown = { tab: "rebalances", rebalance: "", at: null, from: null, to: null, compare: "" };
  let asked = 0;
  const head = h("header", { class: "grouphead" });
  const chart = h("section", { class: "chart", "aria-label": "Ownership over time" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "More about the group", onkeydown: tabKey });
  const below = h("div", { class: "tabbody", id: "tabbody", role: "tabpanel", tabindex: "0" });
  const side = h("aside", { class: "side", "aria-label": "Details" });
  const element = h("div", { class: "group" }, h("div", { class: "left" }, head, chart, tabs, below), side);
  replace(head, h("h1", {}, id), h("p", { class: "note" }, "Loading …"));

  const remember = throttled(200, () => amend({
    tab: shown.tab === "rebalances" ? "" : shown.tab, rebalance: shown.rebalance, at: shown.at, from: shown.from, to: shown.to, compare: shown.compare,
  }));

  async function load() {
    const turn = ++asked;
    try {
      const received = await data.group(id);
      if (turn !== asked) return;
      page = { ...received, live: app.live };
    } catch (problem) {
      replace(head, h("h1", {}, id), h("p", { class: "nothing" }, problem.message, " ", h("a", { href: address("groups") }, "All groups")));
      replace(side);
      return;
    }
    drawHead();
    if (shown.compare) return compare();
    if (!lanes) begin();
    else lanes.adopt(page);
    drawTabs();
    drawSide();
  }

  function begin() {
    lanes = new Lanes(page, {
      onRange: (from, to) => { shown.from = from; shown.to = to; remember(); },
      onMoment: (at) => { shown.at = at; shown.rebalance = ""; lanes.select(null); drawSide(); remember(); },
      onRebalance: (rebalance) => pick(rebalance.key),
    });
    if (shown.from && shown.to) {
      lanes.from = shown.from;
      lanes.to = shown.to;
    } else lanes.fitRecent();
    const button = (text, title, action) => h("button", { type: "button", class: "quiet", title, "aria-label": title, onclick: action }, text);
    replace(chart, page.lanes.length === 0 ? h("p", { class: "nothing" }, "No partition was assigned within this window.") : null,
      h("div", { class: "charttools" }, legend(), h("span", { class: "space" }), button("−", "Zoom out (−)", () => lanes.zoom(1.6)), button("+", "Zoom in (+)", () => lanes.zoom(0.625)), button("all", "Everything (0)", fitAll)),
      lanes.element, windowNote());
    lanes.layout();
    if (shown.at !== null) lanes.setMoment(shown.at);
    if (shown.rebalance) lanes.select(page.rebalances.find((rebalance) => rebalance.key === shown.rebalance));
  }

  function fitAll() {
    lanes.fitAll();
    lanes.show(lanes.from, lanes.to);
  }

  function legend() {
    const key = (kind, ...text) => h("span", { class: "nowrap" }, h("i", { class: `key ${kind}` }), text);
    return h("p", { class: "legend" }, key("unowned", "no owner", page.unowned_ms ? h("b", {}, ` ${duration(page.unowned_ms)} in all`) : null),
      page.lanes.some((lane) => lane.gaps.some(([, , kind]) => kind === "not_known")) ? key("not_known", "owner not known") : null,
      key("silent", "owner silent"), key("empty", "group empty"), key("busy", "rebalance"), key("bad", "rebalance with a loss"));
  }

  function windowNote() {
    const { dropped, dropped_commits: commits, segments_left_out: segments } = page.window;
    const parts = [dropped && `${number(dropped)} older records`, commits && `${number(commits)} older commits`, segments && `${number(segments)} older spans of ownership`].filter(Boolean);
    return parts.length === 0 ? null : h("p", { class: "note" }, `Beyond this dashboard's window: ${parts.join(", ")}. They lie on the history topic and in the tables.`);
  }

  /** Whether no source tells what clients asked. */
  function isUnheard() {
    const { watched } = app.overview;
    return watched.length > 0 && !watched.some(({ sources }) => sources.some((source) => source.kind === "request_log"));
  }

  function drawHead() {
    const { group, open_transactions: waits } = page;
    const fact = (title, value, tip) => h("div", { title: tip }, h("dt", {}, title), h("dd", {}, value));
    const now = page.now;
    const protocol = assignor(page);
    replace(head,
      h("p", { class: "crumb" }, h("a", { href: address("groups") }, "Groups"), " /"),
      h("h1", {}, id), verdict(group.verdict), h("p", { class: "reason" }, group.reason),
      app.overview.has_what_if || shown.compare ? h("a", { class: "asked", href: shown.compare ? address("group", id) : address("group", id, { compare: "yes" }) }, shown.compare ? "Back to what happened" : "What if …?") : null,
      waits.oldest.map((each) => h("p", { class: "waits" }, `${each.text} since ${moment(each.since_ms)}.`)),
      waits.left_out ? h("p", { class: "waits" }, `They wait for ${count(waits.left_out, "transaction")} more.`) : null,
      h("dl", { class: "facts" },
        fact("state", [state(group.state), ` for ${roughly(now - group.state_since_ms)}`]), KINDS[group.type] ? fact("kind", KINDS[group.type]) : null, fact(counts(group), number(group.generation)), group.target_epoch !== null && group.target_epoch !== group.generation ? fact("target of epoch", number(group.target_epoch), "The target assignment of the newest epoch is not computed yet") : null, fact("members", number(group.members)),
        fact("partitions", number(group.partitions)), protocol ? fact("assignor", h("span", { class: "mono" }, protocol)) : null,
        fact("lag", group.lag === null ? "not known" : number(group.lag), group.lag === null ? "The ends of the logs are not known here" : null),
        group.lost ? fact("lost", number(group.lost), "Messages that were deleted before they were read") : null,
        group.uncommitted_messages ? fact("no commit", `${number(group.uncommitted_partitions)}, up to ${number(group.uncommitted_messages)}`, "Partitions without a commit, and all their messages: nobody knows how many wait") : null,
        group.lag_ms === null ? null : fact("behind", `${group.lag_ms_is_at_least ? "more than " : ""}${duration(group.lag_ms)}`),
        fact("rebalances", number(group.rebalances)), fact("refused requests", isUnheard() && !group.refusals ? "not known" : number(group.refusals)),
        fact("last commit", group.last_commit_ms ? `${roughly(now - group.last_commit_ms)} ago` : "–")));
  }

  function drawTabs() {
    replace(tabs, TABS.map(({ key, title, size }) => h("button", {
      type: "button", role: "tab", id: `tab-${key}`, "aria-controls": "tabbody", "aria-selected": String(shown.tab === key), tabindex: shown.tab === key ? "0" : "-1", onclick: () => openTab(key),
    }, title, size(page) ? h("span", { class: "count" }, number(size(page))) : null)));
    below.setAttribute("aria-labelledby", `tab-${shown.tab}`);
    replace(below, tabPanel(shown.tab, page, { selected: shown.rebalance, onRebalance: pick, onMoment: toMoment, app }));
  }

  function openTab(key) {
    shown.tab = key;
    drawTabs();
    remember();
  }

  function tabKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.stopPropagation();
    const keys = TABS.map((tab) => tab.key);
    openTab(keys[(keys.indexOf(shown.tab) + step + keys.length) % keys.length]);
    tabs.querySelector("[aria-selected=true]").focus();
  }

  function pick(key) {
    shown.rebalance = key;
    lanes.select(page.rebalances.find((rebalance) => rebalance.key === key));
    drawSide();
    for (const row of below.querySelectorAll("tr[data-key]")) row.setAttribute("aria-selected", String(row.dataset.key === key));
    remember();
  }

  function toMoment(at) {
    shown.at = at;
    shown.rebalance = "";
    lanes.select(null);
    lanes.setMoment(at);
    drawSide();
    remember();
  }

  function present() {
    shown.at = null;
    shown.rebalance = "";
    lanes.select(null);
    lanes.setMoment(null);
    drawSide();
    remember();
  }

  async function drawSide() {
    if (shown.rebalance) {
      const key = shown.rebalance;
      const { rebalances } = page;
      const place = rebalances.findIndex((rebalance) => rebalance.key === key);
      try {
        const story = await data.rebalance(id, key);
        if (shown.rebalance !== key) return;
        replace(side, rebalancePanel(story, page, { onClose: present, onMoment: toMoment, onRebalance: pick, neighbours: [rebalances[place - 1]?.key, rebalances[place + 1]?.key] }));
      } catch (problem) {
        replace(side, h("section", { class: "panel" }, h("h2", {}, "Rebalance"), h("p", { class: "nothing" }, problem.message)));
      }
      return;
    }
    replace(side, momentPanel(page, shown.at, { onPresent: present, onRebalance: pick }));
  }

  function compare() {
    const view = compareView(app, id, page);
    replace(chart, view.element);
    replace(tabs);
    replace(below);
    replace(side);
    element.classList.add("comparing");
    lanes = null;
  }

  function key(event) {
    if (!lanes) return;
    const { rebalances } = page;
    const place = rebalances.findIndex((rebalance) => rebalance.key === shown.rebalance);
    const onSlider = event.target.closest?.("[role=slider], [role=tab]");
    if (event.key === "Escape") present();
    else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && !onSlider) {
      const next = place < 0 ? (event.key === "ArrowLeft" ? rebalances.length - 1 : 0) : place + (event.key === "ArrowLeft" ? -1 : 1);
      if (rebalances[next]) pick(rebalances[next].key);
    } else if (event.key === "[") lanes.step(-0.01);
    else if (event.key === "]") lanes.step(0.01);
    else if (event.key === "+" || event.key === "=") lanes.zoom(0.625);
    else if (event.key === "-") lanes.zoom(1.6);
    else if (event.key === "0") fitAll();
  }

  function read(given) {
    const milliseconds = (name) => (given.get(name) ? Number(given.get(name)) : null);
    shown = { tab: given.get("tab") || "rebalances", rebalance: given.get("rebalance") ?? "", at: milliseconds("at"), from: milliseconds("from"), to: milliseconds("to"), compare: given.get("compare") ?? "" };
    element.classList.toggle("comparing", Boolean(shown.compare));
  }

  const reload = promptly(1000, load);
  read(parameters);
  load();
  return {
    element, key,
    rows: (changes) => { if (!shown.compare && changes.some((row) => row.group_id === id)) reload(); },
    reload,
    restyle: () => { lanes?.restyle(); if (page && !shown.compare) { drawTabs(); drawSide(); } },
    amended: (given) => { read(given); lanes?.close(); lanes = null; load(); },
    close: () => lanes?.close(),
  };
}
