// What lies beneath the swim-lanes: rebalances, members, offsets, refusals, records.

import { h, s } from "dashboard/dom";
import { count, duration, host, moment, number, preciseClock, roughly } from "dashboard/format";
import { counts } from "dashboard/epochs";
import { kindTag, words } from "dashboard/events";
import { memberName, votesOf } from "dashboard/rebalance";
import { requestDetails, seenMark } from "dashboard/requests";
import { trigger } from "dashboard/verdicts";

const ROWS_MAX = 400;

export const TABS = [
  { key: "rebalances", title: "Rebalances", size: (page) => page.rebalances.length, show: rebalances },
  { key: "members", title: "Members", size: (page) => page.members.length, show: members },
  { key: "offsets", title: "Offsets", size: (page) => page.offsets.length, show: offsets },
  { key: "refusals", title: "Refusals", size: (page) => page.refusals.length, show: refusals },
  { key: "records", title: "Records", size: (page) => page.records.length, show: records },
];

export function tabPanel(key, page, tools) {
  return (TABS.find((each) => each.key === key) ?? TABS[0]).show(page, tools);
}

function table(titles, rows, none) {
  if (rows.length === 0) return h("p", { class: "nothing" }, none);
  return h("table", { class: "plain wide" }, h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col", class: title.startsWith("#") ? "number" : "" }, title.replace("#", ""))))), h("tbody", {}, rows));
}

function few(all, what, rows) {
  return all.length > ROWS_MAX ? [rows, h("p", { class: "note" }, `… and ${count(all.length - ROWS_MAX, `older ${what}`)}`)] : rows;
}

function rebalances(page, { selected, onRebalance }) {
  const longest = Math.max(1, ...page.rebalances.map((each) => each.took ?? 0));
  const isWatched = page.rebalances.some((each) => each.seen);
  const rows = page.rebalances.slice(-ROWS_MAX).reverse().map((each) => h("tr", { "data-key": each.key, "aria-selected": String(each.key === selected), onclick: () => onRebalance(each.key) },
    h("td", { class: "mono" }, h("button", { type: "button", class: "linklike", title: `${moment(each.started)} UTC` }, preciseClock(each.started))),
    h("td", { class: "number" }, each.counts === "epoch" && counts(page.group) !== "epoch" ? h("span", { class: "muted" }, "epoch ") : null, number(each.generation ?? each.from_generation + 1)),
    h("td", {}, trigger(each.trigger)),
    h("td", { class: "grow" }, each.because, each.dropped.length ? h("span", { class: "tag bad" }, `${each.dropped.length} dropped`) : null),
    isWatched ? null : h("td", { class: "number" }, each.waited.length || "–"),
    h("td", { class: "bar" }, h("span", { class: "meter", style: { "--part": `${((each.took ?? 0) / longest) * 100}%` } }), each.took === null ? "not over" : each.begin_known ? duration(each.took) : h("span", { class: "muted" }, "not known")),
    h("td", {}, each.outcome ?? "running"),
    isWatched ? h("td", {}, seenMark(each.seen)) : null));
  return few(page.rebalances, "rebalance", table([page.rebalances.every((each) => each.begin_known) ? "Began" : "Began or ended", `#${counts(page.group) === "epoch" ? "Epoch" : "Gen."}`, "Trigger", "Because", ...(isWatched ? [] : ["#Waited for"]), "Took", "Outcome", ...(isWatched ? ["Seen in"] : [])], rows, "No rebalance within this window."));
}

function members(page) {
  const order = page.members.map((each, at) => ({ each, at })).sort((a, b) => (a.each.ended ?? Infinity) === (b.each.ended ?? Infinity) ? b.each.first - a.each.first : (b.each.ended ?? Infinity) - (a.each.ended ?? Infinity));
  const { from, to } = page.window;
  const owned = new Map();
  for (const lane of page.lanes) for (const [number, , end] of lane.owned) if (end === null) owned.set(number, (owned.get(number) ?? 0) + 1);
  const part = (ms) => (100 * (Math.min(Math.max(ms, from), to) - from)) / Math.max(1, to - from);
  const ended = (each) => [h("span", { class: `tag ${each.ended_by === "expired" || each.ended_by === "dropped" ? "bad" : ""}` }, words(each.ended_by)), " ", preciseClock(each.ended), h("small", {}, [`lived ${duration(each.ended - each.first)}`, each.reason?.replaceAll("_", " ")].filter(Boolean).join("; "))];
  const rows = order.slice(0, ROWS_MAX).map(({ each, at }) => h("tr", { class: each.ended === null ? "" : "over" },
    h("td", {}, memberName(each, each.id), h("small", { class: "mono" }, [each.instance ? `static ${each.instance}` : each.client, host(each.host)].filter(Boolean).join(" · "))),
    h("td", { class: "life" }, s("svg", { width: 84, height: 10, role: "img", "aria-label": `from ${moment(each.first)} to ${each.ended === null ? "now" : moment(each.ended)}` }, s("rect", { class: "all", x: 0, y: 4, width: "100%", height: 2 }), s("rect", { class: "lived", x: `${part(each.first)}%`, y: 1, height: 8, width: `${Math.max(1, part(each.ended ?? to) - part(each.first))}%` }))),
    h("td", { class: "mono" }, preciseClock(each.first)),
    h("td", { class: "end" }, each.ended === null ? (each.joined === null ? "has its id, not joined" : h("span", { class: "state good" }, "there")) : ended(each)),
    h("td", { class: "number" }, number(each.rejoins)), h("td", { class: "number" }, each.ended === null ? number(owned.get(at) ?? 0) : "–"),
    h("td", {}, (each.protocols ?? []).join(", "), h("small", {}, `session ${duration(each.session)}${each.rebalance ? `, rebalance ${duration(each.rebalance)}` : ""}`))));
  const titles = ["Member", "Life", "First seen", "End", "#Rejoins", "#Partitions", "Assignors, timeouts"];
  return [few(page.members, "life", table(titles, rows, "No member within this window.")), votesOf(page.votes, (id) => memberName(page.members.find((each) => each.id === id), id))];
}

function offsets(page, { onMoment }) {
  const find = (id) => page.members.find((each) => each.id === id);
  const rows = page.offsets.slice(0, ROWS_MAX).map((each) => h("tr", {},
    h("td", { class: "mono" }, `${each.topic}-${each.partition}`), h("td", { class: "number" }, number(each.offset)),
    h("td", { class: "number" }, each.beyond_end ? h("span", { class: "tag bad", title: "The committed offset lies beyond the end of the log: the topic was made anew, or truncated." }, "beyond the end") : number(each.lag)),
    h("td", { class: "number" }, each.lag_ms === null ? "–" : `${each.lag_at_least ? "> " : ""}${duration(each.lag_ms)}`),
    h("td", { class: "life" }, trend(each, page)),
    h("td", { class: "mono" }, each.committed === null ? "–" : preciseClock(each.committed)),
    h("td", {}, each.by ? memberName(find(each.by), each.by) : "–"),
    h("td", {}, each.expires === null ? "–" : `in ${roughly(each.expires - page.now)}`),
    h("td", { class: "mono grow" }, each.metadata)));
  const back = page.rewinds.slice().reverse().map((each) => h("tr", {},
    h("td", { class: "mono" }, h("button", { type: "button", class: "linklike", onclick: () => onMoment(each.t) }, preciseClock(each.t))), h("td", { class: "mono" }, `${each.topic}-${each.partition}`),
    h("td", { class: "number" }, `${number(each.from)} → ${number(each.to)}`), h("td", { class: "number" }, number(each.from - each.to)), h("td", {}, each.by ? memberName(find(each.by), each.by) : h("span", { class: "mono" }, each.client ?? "–")), h("td", { class: "mono" }, `offset ${each.offset}`)));
  return [few(page.offsets, "partition", table(["Partition", "#Offset", "#Lag", "#Behind", "Commits over time", "Committed", "By", "Expires", "Metadata"], rows, "No offsets.")),
    back.length ? [h("h3", {}, `Commits that went back: ${back.length}`), table(["When", "Partition", "#From → to", "#Back by", "By", "Request"], back, "")] : null];
}

/** Committed offsets, and the end of the log above them. */
function trend(each, page) {
  const { from, to } = page.window;
  const known = each.offsets.filter((offset) => offset !== null);
  if (known.length < 2) return "–";
  const top = Math.max(...known, ...each.ends);
  const bottom = Math.min(...known);
  const x = (ms) => (120 * (ms - from)) / Math.max(1, to - from);
  const y = (offset) => 21 - (20 * (offset - bottom)) / Math.max(1, top - bottom);
  const line = (times, values) => times.map((time, at) => (values[at] === null ? null : `${x(time).toFixed(1)},${y(values[at]).toFixed(1)}`)).filter(Boolean).join(" ");
  return s("svg", { class: "trend", width: 120, height: 22, role: "img", "aria-label": `from ${number(known[0])} to ${number(known[known.length - 1])}` }, each.ends.length ? s("polyline", { class: "end", points: line(each.end_times, each.ends) }) : null, s("polyline", { points: line(each.times, each.offsets) }));
}

function refusals(page) {
  if (page.refusals.length === 0) return h("p", { class: "nothing" }, "No request was refused within this window.");
  return h("ol", { class: "refusals" }, page.refusals.map((each) => h("li", {}, h("details", {}, h("summary", {},
    h("time", { title: `${moment(each.t)} UTC` }, preciseClock(each.t)), h("span", { class: "mono" }, each.api), h("span", { class: "tag bad" }, `${each.error} (${each.code})`), h("span", { class: "said" }, each.detail)),
    h("dl", { class: "numbers" }, h("div", {}, h("dt", {}, "rule"), h("dd", { class: "mono" }, each.rule)), h("div", {}, h("dt", {}, "state it met"), h("dd", {}, each.state === "none" ? "no such group" : each.state)), h("div", {}, h("dt", {}, counts(page.group)), h("dd", {}, each.generation))),
    each.advice ? h("p", { class: "advice" }, each.advice) : null, requestDetails(each.request)))));
}

function records(page, { onMoment }) {
  const rows = page.records.slice(0, ROWS_MAX).map(([time, epoch, seq, kind, text]) => h("tr", {}, h("td", { class: "mono" }, h("button", { type: "button", class: "linklike", onclick: () => onMoment(time) }, preciseClock(time))), h("td", {}, kindTag(kind)), h("td", { class: "grow" }, text), h("td", { class: "mono muted" }, `${epoch}-${seq}`)));
  return few(page.records, "record", table(["When", "Kind", "What happened", "Epoch-seq"], rows, "No record within this window."));
}
