// One rebalance told in full: why, who was waited for, what happened step by step, whose partitions moved.

import { h, s } from "dashboard/dom";
import { duration, host, moment, preciseClock } from "dashboard/format";
import { colour } from "dashboard/palette";
import { requestDetails, seenMark } from "dashboard/requests";
import { trigger } from "dashboard/verdicts";
import { kindTag } from "dashboard/events";

const OUTCOMES = { stable: ["good", "stable"], empty: ["calm", "group empty"], interrupted: ["warn", "interrupted"], unknown: ["calm", "unknown"] };
const MOVES_SHOWN = 60;

/** `told` is the document of a rebalance; `page` the group's, for names and colours. */
export function rebalancePanel(told, page, { onClose, onMoment, onRebalance, neighbours }) {
  const bySlot = new Map(page.members.map((each) => [each.id, each]));
  const name = (id) => memberName(bySlot.get(id), id);
  const [tone, outcome] = told.outcome === null ? ["busy", "not over"] : OUTCOMES[told.outcome];
  const number = (title, value) => h("div", {}, h("dt", {}, title), h("dd", {}, value));
  return h("section", { class: "panel rebalance", "aria-label": `Rebalance to ${told.counts} ${told.generation}` },
    h("header", {}, h("h2", {}, `${told.counts === "epoch" ? "Epoch" : "Generation"} ${told.generation}`), h("span", { class: `state ${tone}` }, outcome), h("span", { class: "space" }),
      step("←", "The rebalance before (←)", neighbours[0], onRebalance), step("→", "The next rebalance (→)", neighbours[1], onRebalance),
      h("button", { type: "button", class: "quiet", "aria-label": "Close", title: "Close (Esc)", onclick: onClose }, "✕")),
    h("p", { class: "because" }, trigger(told.trigger), " ", told.because),
    told.seen ? h("p", { class: "note" }, beginning(told)) : null,
    h("dl", { class: "numbers" }, number(told.begin_known ? "began" : "known from", h("button", { type: "button", class: "linklike", title: "Show this moment", onclick: () => onMoment(told.started) }, preciseClock(told.started))),
      number("took", told.begin_known ? duration(told.took) : "not known"), told.counts === "epoch" ? null : [number("join phase", told.begin_known ? duration(told.join) : "not known"), number("sync phase", told.took !== null && told.join !== null ? duration(told.took - told.join) : "–")]),
    told.interrupts ? h("p", { class: "note" }, "It cut short ", h("button", { type: "button", class: "linklike", onclick: () => onRebalance(told.interrupts) }, "the rebalance before"), told.counts === "epoch" ? ": not every member had come to its target." : ": its members had not all synced.") : null,
    waitedFor(told, name, bySlot),
    h("h3", {}, "Chain of cause, and what followed"),
    h("ol", { class: "steps" }, told.steps.map((each) => stepItem(each, told.started))),
    told.steps_left_out ? h("p", { class: "note" }, `… and ${told.steps_left_out} more`) : null,
    moved(told, name),
    votesOf(told.votes, name),
    whoIsWho(told));
}

function beginning({ begin_known: isKnown, seen }) {
  if (!isKnown) return `Its beginning is not known. Its end stands in: ${seen.places}.`;
  const reason = { inferred: "The reason follows from the records of the same step", "not known": "No source tells the reason" }[seen.certainty];
  return `Its beginning stands in: ${seen.places}.${reason ? ` ${reason}.` : ""}`;
}

export function memberName(member, id) {
  return h("span", { class: "member" }, member ? h("i", { class: "swatch", style: { background: colour(member.slot) } }) : null, h("span", { class: "mono", title: id }, member?.name ?? id));
}

function step(sign, title, key, onRebalance) {
  return h("button", { type: "button", class: "quiet", disabled: !key, title, "aria-label": title, onclick: () => onRebalance(key) }, sign);
}

function stepItem(each, started) {
  const offset = each.t - started;
  const since = offset < 0 ? `−${duration(-offset)}` : `+${duration(offset)}`;
  const line = [h("time", { title: `${moment(each.t)} UTC` }, h("span", { class: "at" }, preciseClock(each.t)), h("span", { class: "since" }, since)),
    h("span", { class: "said" }, each.text, each.advice ? h("span", { class: "advice" }, each.advice) : null, seenMark(each.request?.seen))];
  const kind = `${each.cause ? "cause" : ""} ${each.type ?? "note"}`;
  return h("li", { class: kind }, each.request ? h("details", {}, h("summary", {}, line), h("div", { class: "more" }, each.type ? kindTag(each.type) : null, requestDetails(each.request))) : h("div", { class: "plainstep" }, line));
}

/** Whom it waited for, as bars: from the start until told, from told until rejoined. */
function waitedFor(told, name, bySlot) {
  if (told.waiting.length) return [h("h3", {}, "Waiting for"), h("ul", { class: "who" }, told.waiting.map((id) => h("li", {}, name(id))))];
  if (told.waited.length === 0) return null;
  const ends = told.waited.map((each) => each.joined ?? each.gone ?? told.ended ?? told.started);
  const span = Math.max(1, ...ends.map((end) => end - told.started));
  const part = (ms) => `${(100 * Math.max(0, ms - told.started)) / span}%`;
  const row = (each, end) => {
    const told_ = each.told ?? end;
    const outcome = each.joined !== null ? `rejoined after ${duration(each.joined - told.started)}` : `${each.fate}${each.gone ? ` after ${duration(each.gone - told.started)}` : ""}`;
    const learned = each.told === null ? "never told" : `told after ${duration(each.told - told.started)}`;
    return h("li", { class: each.joined === null ? "lost" : "" },
      h("div", { class: "line" }, name(each.id), each.slowest && told.waited.length > 1 ? h("span", { class: "tag warn" }, "slowest") : null, h("span", { class: "space" }), h("span", { class: "muted" }, `${learned}, ${outcome}`)),
      s("svg", { class: "wait", width: "100%", height: 8, role: "img", "aria-label": `${learned}, ${outcome}` },
        s("rect", { class: "untold", x: 0, y: 3, height: 2, width: part(told_) }),
        s("rect", { class: each.joined === null ? "lost" : "joining", x: part(told_), y: 0, height: 8, rx: 1, width: `${(100 * Math.max(0, end - told_)) / span}%`, style: each.joined === null ? {} : { fill: colour(bySlot.get(each.id)?.slot ?? -1) } })));
  };
  return [h("h3", {}, "Waited for"), h("ul", { class: "waits" }, told.waited.map((each, number) => row(each, ends[number])))];
}

function moved(told, name) {
  if (told.moves.length === 0) return null;
  const changed = told.moves.filter((each) => each.before !== each.after);
  const total = told.moves.reduce((sum, each) => sum + each.count, 0);
  const count = changed.reduce((sum, each) => sum + each.count, 0);
  return [h("h3", {}, `Partitions: ${count} of ${total} changed owner`),
    changed.length === 0 ? null : h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["Partitions", "Before", "Since"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, changed.slice(0, MOVES_SHOWN).map((each) => h("tr", {}, h("td", { class: "mono" }, `${each.topic} ${each.partitions}`), h("td", {}, each.before ? name(each.before) : "nobody"), h("td", {}, each.after ? name(each.after) : "nobody"))))),
    changed.length > MOVES_SHOWN ? h("p", { class: "note" }, `… and ${changed.length - MOVES_SHOWN} more lines`) : null];
}

export function votesOf(votes, name) {
  if (!votes) return null;
  return [h("h3", {}, "Votes for the assignor"), h("ul", { class: "votes" }, votes.votes.map(({ protocol, members }) => h("li", {},
    h("span", { class: "mono" }, protocol), protocol === votes.protocol ? h("span", { class: "tag good" }, votes.tie ? "chosen; a tie, settled as Kafka does" : "chosen") : null,
    h("span", { class: "muted" }, `${members.length}: `), members.map((id) => name(id)))))];
}

function whoIsWho(told) {
  return h("details", { class: "whoiswho" }, h("summary", {}, "Whom the names stand for"),
    h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["Member id", "Client id", "Host", "Instance"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, told.members.map((each) => h("tr", {}, h("td", { class: "mono id" }, each.id), h("td", { class: "mono" }, each.client), h("td", { class: "mono" }, host(each.host)), h("td", { class: "mono" }, each.instance ?? "–"))))));
}
