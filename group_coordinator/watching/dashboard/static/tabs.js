// What lies beneath the swim-lanes: rebalances, members, offsets, refusals, records.

import { h, s } from "dashboard/dom";
import { ago, count, duration, host, moment, number, preciseClock, roughly } from "dashboard/format";
import { counts } from "dashboard/epochs";
import { kindTag, words } from "dashboard/events";
import { memberName, votesOf } from "dashboard/rebalance";
import { requestDetails, seenMark } from "dashboard/requests";
import { trigger } from "dashboard/verdicts";

const ROWS_MAX = 400;
const DAY_MS = 86400000;

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
  const longest = Math.max(1, ...page.rebalances.map((rebalance) => rebalance.duration_ms ?? 0));
  const isWatched = page.rebalances.some((rebalance) => rebalance.seen);
  const rows = page.rebalances.slice(-ROWS_MAX).reverse().map((rebalance) => h("tr", { "data-key": rebalance.key, "aria-selected": String(rebalance.key === selected), onclick: () => onRebalance(rebalance.key) },
    h("td", { class: "mono" }, h("button", { type: "button", class: "linklike", title: `${moment(rebalance.started_ms)} UTC` }, preciseClock(rebalance.started_ms))),
    h("td", { class: "number" }, rebalance.counts === counts(page.group) ? null : h("span", { class: "muted" }, rebalance.counts === "epoch" ? "epoch " : "gen. "), number(rebalance.generation)),
    h("td", {}, trigger(rebalance.trigger)),
    h("td", { class: "grow" }, rebalance.cause, rebalance.dropped.length ? h("span", { class: "tag bad" }, `${rebalance.dropped.length} dropped`) : null),
    isWatched ? null : h("td", { class: "number" }, rebalance.waited_for || "–"),
    h("td", { class: "bar" }, h("span", { class: "meter", style: { "--part": `${((rebalance.duration_ms ?? 0) / longest) * 100}%` } }), rebalance.duration_ms === null ? "not over" : rebalance.is_begin_known ? duration(rebalance.duration_ms) : h("span", { class: "muted" }, "not known")),
    h("td", {}, rebalance.outcome ?? "running"),
    isWatched ? h("td", {}, seenMark(rebalance.seen)) : null));
  const rolls = page.deploys.slice().reverse().map((deploy) => h("tr", {},
    h("td", { class: "mono" }, `${moment(deploy.started)} – ${preciseClock(deploy.ended)}`), h("td", { class: "number" }, number(deploy.rebalances)), h("td", { class: "number" }, `${number(deploy.replaced)} of ${number(deploy.members)}`),
    h("td", { class: "number" }, `${deploy.not_known_ms ? "≥ " : ""}${duration(deploy.unowned_ms)}`), h("td", { class: "number" }, duration(deploy.longest_ms))));
  const deploys = rolls.length ? [h("h3", {}, "Deploys"), table(["From – to", "#Rebalances", "#Members replaced", "#Partition-time without owner", "#Longest, one partition"], rolls, ""), h("h3", {}, "Rebalances")] : null;
  return [deploys, few(page.rebalances, "rebalance", table([page.rebalances.every((rebalance) => rebalance.is_begin_known) ? "Began" : "Began or ended", `#${counts(page.group) === "epoch" ? "Epoch" : "Gen."}`, "Trigger", "Because", ...(isWatched ? [] : ["#Waited for"]), "Took", "Outcome", ...(isWatched ? ["Seen in"] : [])], rows, "No rebalance within this window."))];
}

function members(page) {
  const order = page.members.map((member, at) => ({ member, at })).sort((a, b) => (a.member.ended ?? Infinity) === (b.member.ended ?? Infinity) ? b.member.first - a.member.first : (b.member.ended ?? Infinity) - (a.member.ended ?? Infinity));
  const { from, to } = page.window;
  const owned = new Map();
  for (const lane of page.lanes) for (const [number, , end] of lane.owned) if (end === null) owned.set(number, (owned.get(number) ?? 0) + 1);
  const isOfEpochs = counts(page.group) === "epoch";
  const present = page.epochs?.now ?? {};
  const epoch = (member) => (member.ended === null ? present.members?.[member.id]?.[1] ?? null : null);
  const part = (ms) => (100 * (Math.min(Math.max(ms, from), to) - from)) / Math.max(1, to - from);
  const ended = (member) => [h("span", { class: `tag ${member.ended_by === "expired" || member.ended_by === "dropped" ? "bad" : ""}` }, words(member.ended_by)), " ", preciseClock(member.ended), h("small", {}, [`lived ${duration(member.ended - member.first)}`, member.reason?.replaceAll("_", " ")].filter(Boolean).join("; "))];
  const rows = order.slice(0, ROWS_MAX).map(({ member, at }) => h("tr", { class: member.ended === null ? "" : "over" },
    h("td", {}, memberName(member, member.id), h("small", { class: "mono" }, [member.instance ? `static ${member.instance}` : member.client, host(member.host)].filter(Boolean).join(" · "))),
    h("td", { class: "life" }, s("svg", { width: 84, height: 10, role: "img", "aria-label": `from ${moment(member.first)} to ${member.ended === null ? "now" : moment(member.ended)}` }, s("rect", { class: "all", x: 0, y: 4, width: "100%", height: 2 }), s("rect", { class: "lived", x: `${part(member.first)}%`, y: 1, height: 8, width: `${Math.max(1, part(member.ended ?? to) - part(member.first))}%` }))),
    h("td", { class: "mono" }, preciseClock(member.first)),
    h("td", { class: "end" }, member.ended === null ? (member.joined === null ? "has its id, not joined" : h("span", { class: "state good" }, "there")) : ended(member)),
    h("td", { class: "number" }, isOfEpochs ? (epoch(member) === -2 ? "away" : number(epoch(member))) : number(member.rejoins)), h("td", { class: "number" }, member.ended === null ? number(owned.get(at) ?? 0) : "–"),
    h("td", {}, isOfEpochs && member.ended === null && present.classic?.includes(member.id) ? [h("span", { class: "tag" }, "classic protocol"), " "] : null, (member.protocols ?? []).join(", "),
      h("small", {}, [member.session && `session ${duration(member.session)}`, member.rebalance && `rebalance ${duration(member.rebalance)}`].filter(Boolean).join(", ")))));
  const titles = ["Member", "Life", "First seen", "End", isOfEpochs ? "#Epoch" : "#Rejoins", "#Partitions", isOfEpochs ? "Protocol, timeouts" : "Assignors, timeouts"];
  return [few(page.members, "life", table(titles, rows, "No member within this window.")), isOfEpochs ? null : votesOf(page.votes, (id) => memberName(page.members.find((member) => member.id === id), id))];
}

function offsets(page, { onMoment }) {
  const find = (id) => page.members.find((member) => member.id === id);
  const rows = page.offsets.slice(0, ROWS_MAX).map((partition) => h("tr", {},
    h("td", { class: "mono" }, `${partition.topic}-${partition.partition}`), h("td", { class: "number" }, number(partition.committed_offset)),
    h("td", { class: "number" }, number(partition.log_start_offset), " – ", number(partition.log_end_offset)),
    h("td", { class: "number" }, lagMark(page, partition), partition.is_beyond_end ? h("span", { class: "tag bad", title: "The committed offset lies beyond the end of the log: the topic was made anew, or truncated." }, "beyond the end") : partition.uncommitted_messages ? `up to ${number(partition.uncommitted_messages)}` : number(partition.lag)),
    h("td", { class: "number" }, partition.lag_ms === null ? "–" : `${partition.lag_ms_is_at_least ? "> " : ""}${duration(partition.lag_ms)}`),
    h("td", { class: "life" }, trend(partition, page)),
    h("td", { class: "mono" }, partition.committed_ms === null ? "–" : page.now - partition.committed_ms < DAY_MS ? preciseClock(partition.committed_ms) : moment(partition.committed_ms)),
    h("td", {}, partition.committed_by ? memberName(find(partition.committed_by), partition.committed_by) : "–"),
    h("td", {}, partition.expires_ms === null ? "–" : `in ${roughly(partition.expires_ms - page.now)}`),
    h("td", { class: "mono grow" }, partition.metadata)));
  const back = page.rewinds.slice().reverse().map((rewind) => h("tr", {},
    h("td", { class: "mono" }, h("button", { type: "button", class: "linklike", onclick: () => onMoment(rewind.t) }, preciseClock(rewind.t))), h("td", { class: "mono" }, `${rewind.topic}-${rewind.partition}`),
    h("td", { class: "number" }, `${number(rewind.from)} → ${number(rewind.to)}`), h("td", { class: "number" }, number(rewind.from - rewind.to)), h("td", {}, rewind.by ? memberName(find(rewind.by), rewind.by) : h("span", { class: "mono" }, rewind.client ?? "–")), h("td", { class: "mono" }, `offset ${rewind.offset}`)));
  const said = page.group.findings.filter(({ text }) => text).map(({ text }) => h("p", { class: "note" }, text));
  return [said, few(page.offsets, "partition", table(["Partition", "#Offset", "#Log", "#Lag", "#Behind", "Commits over time", "Committed", "By", "Expires", "Metadata"], rows, "No offsets.")),
    back.length ? [h("h3", {}, `Commits that went back: ${back.length}`), table(["When", "Partition", "#From → to", "#Back by", "By", "Request"], back, "")] : null];
}

/** What is wrong with a partition. */
function lagMark(page, { topic, partition, committed_offset: offset, lost, uncommitted_messages: upTo }) {
  const found = page.group.findings.find((finding) => finding.topic === topic && finding.partition === partition);
  const word = found?.kind.replaceAll("_", " ");
  return [
    lost ? h("span", { class: "tag bad", title: "Deleted before they were read." }, `${number(lost)} lost`) : null,
    word && !(lost && word === "lost") ? h("span", { class: `tag ${found.kind === "transaction" ? "" : "bad"}`, title: found.since_ms === null ? "" : `since ${moment(found.since_ms)} UTC` }, word) : null,
    offset === null && upTo !== null ? h("span", { class: "tag" }, "no commit") : null, " ",
  ];
}

/** Committed offsets within the window, and the end of the log above them; where there are fewer than two, words on the last. */
function trend(partition, page) {
  const { from, to } = page.window;
  const points = partition.times_ms.map((time, at) => [time, partition.offsets[at]]).filter(([, offset]) => offset !== null);
  const shown = points.filter(([time]) => time >= from);
  const before = points.length - shown.length;
  if (before) shown.unshift([from, points[before - 1][1]]);
  const within = points.length - before;
  if (within === 0) return partition.committed_ms === null ? "–" : `none since ${moment(from)}, the last ${ago(partition.committed_ms, page.now)}`;
  if (shown.length < 2) return `one, ${ago(shown[0][0], page.now)}`;
  const offsets = shown.map(([, offset]) => offset);
  const top = Math.max(...offsets, ...partition.end_offsets);
  const bottom = Math.min(...offsets);
  const x = (ms) => (120 * (Math.max(ms, from) - from)) / Math.max(1, to - from);
  const y = (offset) => 21 - (20 * (offset - bottom)) / Math.max(1, top - bottom);
  const line = (pairs) => pairs.filter(([, offset]) => offset !== null).map(([time, offset]) => `${x(time).toFixed(1)},${y(offset).toFixed(1)}`).join(" ");
  const ends = partition.end_times_ms.map((time, at) => [time, partition.end_offsets[at]]);
  return s("svg", { class: "trend", width: 120, height: 22, role: "img", "aria-label": `from ${number(offsets[0])} to ${number(offsets[offsets.length - 1])}` }, ends.length ? s("polyline", { class: "end", points: line(ends) }) : null, s("polyline", { points: line(shown) }));
}

function refusals(page) {
  if (page.refusals.length === 0) return h("p", { class: "nothing" }, "No request was refused within this window.");
  return h("ol", { class: "refusals" }, page.refusals.map((refusal) => h("li", {}, h("details", {}, h("summary", {},
    h("time", { title: `${moment(refusal.t)} UTC` }, preciseClock(refusal.t)), h("span", { class: "mono" }, refusal.api), h("span", { class: "tag bad" }, `${refusal.error} (${refusal.code})`), h("span", { class: "said" }, refusal.detail)),
    h("dl", { class: "numbers" }, h("div", {}, h("dt", {}, "rule"), h("dd", { class: "mono" }, refusal.rule)), h("div", {}, h("dt", {}, "state it met"), h("dd", {}, refusal.state === "none" ? "no such group" : refusal.state)), h("div", {}, h("dt", {}, counts(page.group)), h("dd", {}, refusal.generation))),
    refusal.advice ? h("p", { class: "advice" }, refusal.advice) : null, requestDetails(refusal.cause, refusal.seen)))));
}

function records(page, { onMoment }) {
  const rows = page.records.slice(0, ROWS_MAX).map(([time, epoch, seq, kind, text]) => h("tr", {}, h("td", { class: "mono" }, h("button", { type: "button", class: "linklike", onclick: () => onMoment(time) }, preciseClock(time))), h("td", {}, kindTag(kind)), h("td", { class: "grow" }, text), h("td", { class: "mono muted" }, `${epoch}-${seq}`)));
  return few(page.records, "record", table(["When", "Kind", "What happened", "Epoch-seq"], rows, "No record within this window."));
}
