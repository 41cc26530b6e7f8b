// Which classic groups can go over to the consumer protocol: go, change this first, or wait.

import { h, replace, throttled } from "dashboard/dom";
import * as data from "dashboard/data";
import { count, duration, moment, number } from "dashboard/format";
import { address, amend } from "dashboard/route";

const VERDICTS = {
  "change this first": { sign: "◆", tone: "warn" },
  wait: { sign: "◷", tone: "calm" },
  go: { sign: "→", tone: "good" },
};

function verdict(kind) {
  const { sign, tone } = VERDICTS[kind];
  return h("span", { class: `mark ${tone}` }, h("span", { "aria-hidden": "true" }, sign), " ", kind);
}

export function readinessView(app, _, parameters) {
  const options = { q: "", show: "" };
  let latest = 0;

  const search = h("input", { type: "search", placeholder: "Search groups", "aria-label": "Search groups", oninput: throttled(150, () => set({ q: search.value })) });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Filter by verdict" });
  const tally = h("p", { class: "tally", "aria-live": "polite" });
  const body = h("tbody", {});
  const more = h("button", { type: "button", hidden: true, onclick: () => load(more.dataset.page) }, "More");
  const notes = h("div", {});
  const legend = h("div", {});
  const table = h("table", { class: "plain readiness" },
    h("thead", {}, h("tr", {}, [["Group", ""], ["Verdict", ""], ["What to do, what will be otherwise", "said"], ["Assignor", ""], ["Members", "number"], ["Rebalances", "number"], ["Without owner", "number"]].map(([title, kind]) => h("th", { scope: "col", class: kind }, title)))), body);
  const element = h("div", { class: "events" },
    h("div", { class: "tools" }, h("h1", {}, "Ready for the consumer protocol?"), search, chips, tally),
    h("div", { class: "scroller page", tabindex: "0", role: "region", "aria-label": "Classic groups" }, notes, table, h("p", { class: "more" }, more), legend));

  function set(changes) {
    Object.assign(options, changes);
    amend(options);
    load();
  }

  async function load(page = null) {
    const asked = ++latest;
    try {
      const answer = await data.readiness({ ...options, page });
      if (asked !== latest) return;
      if (page === null) replace(body);
      body.append(...answer.groups.map(row));
      more.hidden = answer.next_page === null;
      more.dataset.page = answer.next_page ?? "";
      draw(answer);
    } catch (problem) {
      replace(notes, h("p", { class: "nothing" }, problem.message));
    }
  }

  function draw({ counts, not_judged: left, settings, not_seen: notSeen }) {
    const total = Object.values(counts).reduce((sum, each) => sum + each, 0);
    const chip = (kind, content, of) => h("button", { type: "button", class: "chip", "aria-pressed": String(options.show === kind), onclick: () => set({ show: options.show === kind ? "" : kind }) }, content, h("span", { class: "count" }, number(of)));
    replace(chips, chip("", "all", total), Object.keys(VERDICTS).filter((kind) => counts[kind]).map((kind) => chip(kind, verdict(kind), counts[kind])));
    replace(tally, `${number(body.childElementCount)} shown`);
    table.hidden = body.childElementCount === 0;
    replace(notes,
      total ? null : h("p", { class: "nothing" }, "No classic group is judged here."),
      left ? h("p", {}, `${count(left, "classic group")} ${left === 1 ? "is" : "are"} not judged: that needs the generations that their coordinator stores, and this page has none of ${left === 1 ? "it" : "them"}.`) : null);
    replace(legend, !total ? null : [
      Object.entries(settings).map(([cluster, told]) => h("p", { class: "note" }, cluster ? `${cluster}: by ` : "By ", `${told.source}: session timeouts of ${duration(told.session_timeout_min_ms)} to ${duration(told.session_timeout_max_ms)}, migration policy ${told.migration_policy}.`)),
      h("p", { class: "note" }, "Rebalances and time without an owner (summed over partitions) are those of the last week, as far as history goes. ", notSeen)]);
  }

  function row(group) {
    const { cost } = group;
    const since = cost.since_ms === null ? "No history" : `Since ${moment(cost.since_ms)} UTC`;
    return h("tr", {},
      h("th", { scope: "row" }, h("a", { href: address("group", group.group_id) }, group.group_id)),
      h("td", {}, verdict(group.verdict)),
      h("td", { class: "said" }, group.reasons.map((text) => h("p", {}, text)), group.remarks.map((text) => h("p", { class: "note" }, text))),
      h("td", { class: "mono" }, group.assignor ?? "–"),
      h("td", { class: "number" }, number(group.members), group.static_members ? h("small", {}, `${number(group.static_members)} static`) : null),
      h("td", { class: "number", title: since }, number(cost.rebalances)),
      h("td", { class: "number", title: since }, duration(cost.without_owner_ms), cost.not_known_ms ? h("small", { title: `of ${duration(cost.not_known_ms)} it is not known` }, "or more") : null));
  }

  function read(given) {
    for (const name of Object.keys(options)) options[name] = given.get(name) ?? "";
    search.value = options.q;
  }

  read(parameters);
  load();
  return { element, reload: () => load(), amended: (given) => { read(given); load(); } };
}
