// What if: the same log under other settings, beside what happened.

import { h, replace } from "dashboard/dom";
import * as data from "dashboard/data";
import { duration, number } from "dashboard/format";
import { Lanes } from "dashboard/lanes";
import { TRIGGERS } from "dashboard/verdicts";

const ASSIGNORS = { classic: ["range", "roundrobin", "sticky", "cooperative-sticky"], consumer: ["uniform", "range"] };
const PROTOCOLS = { classic: "classic", consumer: "consumer (KIP-848)" };

export function compareView(app, id, page) {
  if (page.no_what_if) return { element: h("div", { class: "compare" }, h("h2", {}, "What if …"), h("p", { class: "prose" }, page.no_what_if)) };
  const seconds = (name, least) => h("input", { type: "number", min: least, step: "any", placeholder: "as it was", id: `wi-${name}` });
  const options = (names) => ["", ...Object.keys(names)].map((name) => h("option", { value: name }, names[name] || "as it was"));
  const protocol = h("select", { id: "wi-protocol", onchange: offer }, options(PROTOCOLS));
  const [session, heartbeat, delay, interval] = [seconds("session", 1), seconds("heartbeat", 0.001), seconds("delay", 0), seconds("interval", 0)];
  const fixed = h("input", { type: "checkbox", id: "wi-static" });
  const assignor = h("select", { id: "wi-assignor" });
  const result = h("div", { class: "compared", "aria-live": "polite" }, h("p", { class: "note" }, "Change something. Each client of the log is then played by a member that does what Kafka's consumer does: it comes, falls silent, stalls and leaves when the recorded one did, and rejoins when it is told to."));
  const field = (label, input, unit) => h("label", {}, h("span", {}, label), input, unit ? h("span", { class: "muted" }, unit) : null);
  const [ofClassic, ofConsumer] = [field("Initial delay", delay, "s"), field("Assignment interval", interval, "s")];
  const form = h("form", { class: "whatif", onsubmit: run }, field("Group protocol", protocol), field("Session timeout", session, "s"), field("Heartbeat interval", heartbeat, "s"), ofClassic, ofConsumer, field("Assignor", assignor), h("label", { class: "check" }, fixed, " every client static"), h("button", { type: "submit", class: "primary" }, "Replay"));
  offer();

  /** Only what makes sense with the protocol. */
  function offer() {
    const chosen = protocol.value || (page.group.type === "classic" ? "classic" : "consumer");
    for (const [label, input, of] of [[ofClassic, delay, "classic"], [ofConsumer, interval, "consumer"]]) {
      label.hidden = chosen !== of;
      if (label.hidden) input.value = "";
    }
    const before = assignor.value;
    replace(assignor, options(Object.fromEntries(ASSIGNORS[chosen].map((name) => [name, name]))));
    assignor.value = ASSIGNORS[chosen].includes(before) ? before : "";
  }

  async function run(event) {
    event.preventDefault();
    replace(result, h("p", { class: "note" }, "Replaying …"));
    const ms = (input) => (input.value === "" ? null : Math.round(Number(input.value) * 1000));
    try {
      show(await data.whatIf(id, {
        group_protocol: protocol.value || null, session_timeout_ms: ms(session), heartbeat_interval_ms: ms(heartbeat), initial_delay_ms: ms(delay), assignment_interval_ms: ms(interval),
        static_members: fixed.checked ? "true" : null, assignor: assignor.value || null,
      }));
    } catch (problem) {
      replace(result, h("p", { class: "nothing" }, problem.message));
    }
  }

  function show({ page: other, before, after, unchanged, ranges, assumptions }) {
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
    replace(result, bars(before, unchanged, after), numbers(before, unchanged, after, ranges), belief(assumptions), h("h2", {}, "As it was"), lanes[0].element, h("h2", {}, "As it would have been"), lanes[1].element);
    for (const lane of lanes) {
      lane.layout();
      lane.show(from, to);
    }
  }

  return { element: h("div", { class: "compare" }, h("h2", {}, "What if …"), form, result) };
}

const NAMES = ["As it was", "Played again", "As it would have been"];
const PARTS = [
  ["moving", "without owner", (side) => side.unowned_ms - side.stopped_ms],
  ["stopping", "stopped, though it stayed with its owner", (side) => side.stopped_ms],
  ["silent", "owned by a member that was silent", (side) => side.silent_ms],
];

/** The time in which nobody worked on partitions, to be seen at a glance. */
function bars(...sides) {
  const whole = (side) => PARTS.reduce((sum, [, , of]) => sum + of(side), 0);
  const most = Math.max(...sides.map(whole), 1);
  const bar = (side) => PARTS.map(([kind, title, of]) => (of(side) ? h("span", { class: kind, style: { width: `${(100 * of(side)) / most}%` }, title: `${duration(of(side))} ${title}` }) : null));
  return h("figure", { class: "idle" },
    h("figcaption", {}, "Partition-time in which nobody worked: ", PARTS.map(([kind, title]) => h("span", { class: "part" }, h("i", { class: kind }), title))),
    h("dl", {}, sides.map((side, at) => [h("dt", {}, NAMES[at]), h("dd", {}, h("span", { class: "bar", "aria-hidden": "true" }, bar(side)), h("span", { class: "number" }, duration(whole(side))))])));
}

/** What is taken for granted. The middle column says how near the players come to what happened. */
function belief(assumptions) {
  return h("details", { class: "belief", open: true }, h("summary", {}, "How far can this be believed?"),
    h("p", { class: "note" }, "“Played again” is what the players make of the log when nothing is changed: as near as that comes to what happened, so near is the rest. ", assumptions.join(" ")));
}

function numbers(before, unchanged, after, ranges) {
  const sides = [before, unchanged, after];
  const chance = [{}, ranges.unchanged, ranges.after];
  const triggers = [...new Set(sides.flatMap((side) => Object.keys(side.by_trigger)))].sort();
  const spread = (pair) => (pair ? (pair[0] === pair[1] ? String(pair[0]) : `${pair[0]} to ${pair[1]}`) : "–");
  // A rebalance of a consumer group stops nobody: more of them are no worse than fewer of the other kind.
  const ofOneKind = before.protocols.join() === after.protocols.join();
  const rows = [
    ["Rebalances", "rebalances", number, ofOneKind],
    ...triggers.map((name) => [`… because: ${TRIGGERS[name] ?? name}`, (side) => side.by_trigger[name] ?? 0, number, ofOneKind]),
    ["Time in rebalances", "rebalancing_ms", duration, ofOneKind],
    ["Longest rebalance", "longest_ms", duration, ofOneKind],
    ["Until the first assignment", "start_ms", duration],
    ["Partition-time without owner", "unowned_ms", duration],
    ["… the longest of one partition", "longest_unowned_ms", duration],
    ["… stopped, though it stayed with its owner", "stopped_ms", duration],
    ["Partition-time with a silent owner", "silent_ms", duration],
    ["Partitions that stopped, though they stayed", "stops", number],
    ["Partitions that moved", "moves", number],
    ["Members that were put out", "put_out", number],
    ["Refused requests", "refusals", number],
  ];
  // The same players under both settings: how near they come to what happened is no difference of the settings.
  const difference = (left, right, format, isJudged = true, isChance = false) => {
    if (left === null || right === null || left === right) return h("span", { class: "muted" }, "same");
    return h("span", { class: isChance ? "muted" : !isJudged ? "" : right < left ? "better" : "worse", title: isChance ? "The ranges overlap: this may be chance" : null }, `${right < left ? "−" : "+"}${format(Math.abs(right - left))}${left ? ` (${Math.round((100 * Math.abs(right - left)) / left)} %)` : ""}`);
  };
  const range = (pair, format) => (pair ? h("span", { class: "range", title: "In plays in which heartbeats fall at other moments" }, `${format(pair[0])} to ${format(pair[1])}`) : null);
  const cells = (texts) => texts.map((text) => h("td", { class: "number" }, text));
  return h("div", { class: "scrolls" }, h("table", { class: "plain numbers" }, h("thead", {}, h("tr", {}, ["", ...NAMES, "Difference"].map((title) => h("th", { scope: "col", class: title ? "number" : "" }, title || h("span", { class: "hidden" }, "Measure"))))),
    h("tbody", {}, h("tr", {}, h("th", { scope: "row" }, "Group protocol"), cells(sides.map((side) => side.protocols.join(" and ") || "–")), h("td", {})),
      rows.map(([title, what, format, isJudged]) => {
        const of = typeof what === "string" ? (side) => side[what] : what;
        const [again, would] = [1, 2].map((at) => chance[at][what] ?? [of(sides[at]), of(sides[at])]);
        const isChance = again[0] <= would[1] && would[0] <= again[1];
        return h("tr", {}, h("th", { scope: "row" }, title), cells(sides.map((side, at) => [format(of(side)), range(chance[at][what], format)])), h("td", { class: "number" }, difference(of(unchanged), of(after), format, isJudged, isChance)));
      }),
      h("tr", {}, h("th", { scope: "row" }, "Partitions of a member at the end"), cells(sides.map((side) => spread(side.spread))), h("td", {})))));
}
