// What if: the same log under other settings, beside what happened.

import { h, replace } from "dashboard/dom";
import * as data from "dashboard/data";
import { duration, number } from "dashboard/format";
import { Lanes } from "dashboard/lanes";
import { TRIGGERS } from "dashboard/verdicts";

const ASSIGNORS = ["", "range", "roundrobin", "sticky", "cooperative-sticky"];

export function compareView(app, id, page) {
  if (page.no_what_if) return { element: h("div", { class: "compare" }, h("h2", {}, "What if …"), h("p", { class: "prose" }, page.no_what_if)) };
  const session = h("input", { type: "number", min: 1, step: "any", placeholder: "as it was", id: "wi-session" });
  const delay = h("input", { type: "number", min: 0, step: "any", placeholder: "as it was", id: "wi-delay" });
  const fixed = h("input", { type: "checkbox", id: "wi-static" });
  const assignor = h("select", { id: "wi-assignor" }, ASSIGNORS.map((name) => h("option", { value: name }, name || "as it was")));
  const result = h("div", { class: "compared", "aria-live": "polite" }, h("p", { class: "note" }, "Change something. Each client of the log is then played by a member that does what Kafka's consumer does: it comes, falls silent, stalls and leaves when the recorded one did, and rejoins when it is told to."));
  const field = (label, input, unit) => h("label", {}, h("span", {}, label), input, unit ? h("span", { class: "muted" }, unit) : null);
  const form = h("form", { class: "whatif", onsubmit: run }, field("Session timeout", session, "s"), field("Initial delay", delay, "s"), field("Assignor", assignor), h("label", { class: "check" }, fixed, " every client static"), h("button", { type: "submit", class: "primary" }, "Replay"));

  async function run(event) {
    event.preventDefault();
    replace(result, h("p", { class: "note" }, "Replaying …"));
    const ms = (input) => (input.value === "" ? null : Math.round(Number(input.value) * 1000));
    try {
      show(await data.whatIf(id, { session_timeout_ms: ms(session), initial_delay_ms: ms(delay), static_members: fixed.checked ? "true" : null, assignor: assignor.value || null }));
    } catch (problem) {
      replace(result, h("p", { class: "nothing" }, problem.message));
    }
  }

  function show({ page: other, before, after, unchanged }) {
    const both = [page, other];
    const from = Math.min(...both.map((pageData) => pageData.window.from));
    const to = Math.max(...both.map((pageData) => pageData.window.to));
    const lanes = both.map((pageData, at) => new Lanes(pageData, { label: at ? "As it would have been" : "As it was", onRange: (left, right) => follow(at, left, right), onMoment: (time) => lanes[1 - at].setMoment(time) }));
    function follow(at, left, right) {
      const twin = lanes[1 - at];
      if (twin.from === left && twin.to === right) return;
      twin.from = left;
      twin.to = right;
      twin.draw();
    }
    replace(result, numbers(before, after), check(before, unchanged), h("h2", {}, "As it was"), lanes[0].element, h("h2", {}, "As it would have been"), lanes[1].element);
    for (const lane of lanes) {
      lane.layout();
      lane.show(from, to);
    }
  }

  return { element: h("div", { class: "compare" }, h("h2", {}, "What if …"), form, result) };
}

/** How far the player can be believed: what it makes of the log when nothing is changed. */
function check(before, unchanged) {
  const part = (title, left, right, format) => `${format(right)} ${title} (there were ${format(left)})`;
  return h("p", { class: "note" }, `Played without any change: ${part("rebalances", before.rebalances, unchanged.rebalances, number)}, ${part("in rebalances", before.rebalancing_ms, unchanged.rebalancing_ms, duration)}.`);
}

function numbers(before, after) {
  const triggers = [...new Set([...Object.keys(before.by_trigger), ...Object.keys(after.by_trigger)])].sort();
  const spread = (pair) => (pair ? (pair[0] === pair[1] ? String(pair[0]) : `${pair[0]} to ${pair[1]}`) : "–");
  const rows = [
    ["Rebalances", before.rebalances, after.rebalances, number],
    ...triggers.map((name) => [`… because: ${TRIGGERS[name] ?? name}`, before.by_trigger[name] ?? 0, after.by_trigger[name] ?? 0, number]),
    ["Time in rebalances", before.rebalancing_ms, after.rebalancing_ms, duration],
    ["Longest rebalance", before.longest_ms, after.longest_ms, duration],
    ["Partition-time without owner", before.unowned_ms, after.unowned_ms, duration],
    ["Partitions that moved", before.moves, after.moves, number],
    ["Refused requests", before.refusals, after.refusals, number],
  ];
  const difference = (left, right, format) => {
    if (left === null || right === null || left === right) return h("span", { class: "muted" }, "same");
    return h("span", { class: right < left ? "better" : "worse" }, `${right < left ? "−" : "+"}${format(Math.abs(right - left))}${left ? ` (${Math.round((100 * Math.abs(right - left)) / left)} %)` : ""}`);
  };
  return h("table", { class: "plain numbers" }, h("thead", {}, h("tr", {}, ["", "As it was", "As it would have been", "Difference"].map((title) => h("th", { scope: "col", class: title ? "number" : "" }, title || h("span", { class: "hidden" }, "Measure"))))),
    h("tbody", {}, rows.map(([title, left, right, format]) => h("tr", {}, h("th", { scope: "row" }, title), h("td", { class: "number" }, format(left)), h("td", { class: "number" }, format(right)), h("td", { class: "number" }, difference(left, right, format)))),
      h("tr", {}, h("th", { scope: "row" }, "Partitions of a member at the end"), h("td", { class: "number" }, spread(before.spread)), h("td", { class: "number" }, spread(after.spread)), h("td", {}))));
}
