// One rebalance told in full: why, who was waited for, what happened step by step, whose partitions moved.

import { h, s } from "dashboard/dom";
import { duration, host, moment, preciseClock, ranges } from "dashboard/format";
import { colour } from "dashboard/palette";
import { requestDetails, seenMark } from "dashboard/requests";
import { trigger } from "dashboard/verdicts";
import { heldUp } from "dashboard/epochs";
import { kindTag } from "dashboard/events";

const OUTCOMES = { stable: ["good", "stable"], empty: ["calm", "group empty"], interrupted: ["warn", "interrupted"], coordinator_changed: ["warn", "ended with its coordinator"], unknown: ["calm", "unknown"] };
const MOVES_SHOWN = 60;

/** `details` are those of a rebalance; `page` is the group's, for names and colours. */
export function rebalancePanel(details, page, { onClose, onMoment, onRebalance, neighbours }) {
  const story = { ...details.rebalance, ...details };
  const bySlot = new Map(page.members.map((member) => [member.id, member]));
  const name = (id) => memberName(bySlot.get(id), id);
  const [tone, outcome] = story.outcome === null ? ["busy", "not over"] : OUTCOMES[story.outcome];
  const number = (title, value) => h("div", {}, h("dt", {}, title), h("dd", {}, value));
  return h("section", { class: "panel rebalance", "aria-label": `Rebalance to ${story.counts} ${story.generation}` },
    h("header", {}, h("h2", {}, `${story.counts === "epoch" ? "Epoch" : "Generation"} ${story.generation}`), h("span", { class: `state ${tone}` }, outcome), h("span", { class: "space" }),
      step("←", "The rebalance before (←)", neighbours[0], onRebalance), step("→", "The next rebalance (→)", neighbours[1], onRebalance),
      h("button", { type: "button", class: "quiet", "aria-label": "Close", title: "Close (Esc)", onclick: onClose }, "✕")),
    h("p", { class: "because" }, trigger(story.trigger), " ", story.cause),
    story.seen ? h("p", { class: "note" }, beginning(story)) : null,
    h("dl", { class: "numbers" }, number(story.is_begin_known ? "began" : "known from", h("button", { type: "button", class: "linklike", title: "Show this moment", onclick: () => onMoment(story.started_ms) }, preciseClock(story.started_ms))),
      number("took", story.is_begin_known ? duration(story.duration_ms) : "not known"), story.counts === "epoch" ? null : [number("join phase", story.is_begin_known ? duration(story.join_ms) : "not known"), number("sync phase", story.duration_ms !== null && story.join_ms !== null ? duration(story.duration_ms - story.join_ms) : "–")]),
    story.interrupts ? h("p", { class: "note" }, "It cut short ", h("button", { type: "button", class: "linklike", onclick: () => onRebalance(story.interrupts) }, "the rebalance before"), story.counts === "epoch" ? ": not every member had come to its target." : ": its members had not all synced.") : null,
    story.holders.length ? [h("h3", {}, story.outcome === null ? "Who holds it up" : "Who held it up when it ended"), h("ul", { class: "holders" }, story.holders.map((holder) => h("li", { class: holder.since_ms === null ? "" : "culprit" }, heldUp(holder, name, story.ended_ms ?? page.now))))] : null,
    waitedFor(story, name, bySlot),
    h("h3", {}, "Chain of cause, and what followed"),
    h("ol", { class: "steps" }, story.steps.map((entry) => stepItem(entry, story.started_ms))),
    story.steps_left_out ? h("p", { class: "note" }, `… and ${story.steps_left_out} more`) : null,
    moved(story, name),
    votesOf(story.votes, name),
    whoIsWho(story));
}

function beginning({ is_begin_known: isKnown, seen }) {
  if (!isKnown) return `Its beginning is not known. Its end stands in: ${seen.places}.`;
  const reason = { inferred: "The reason follows from the records of the same step", "not known": "No source tells the reason", "not confirmed": "No later line and no record confirms it" }[seen.certainty];
  return `Its beginning stands in: ${seen.places}.${reason ? ` ${reason}.` : ""}`;
}

export function memberName(member, id) {
  return h("span", { class: "member" }, member ? h("i", { class: "swatch", style: { background: colour(member.slot) } }) : null, h("span", { class: "mono", title: id }, member?.name ?? id));
}

function step(sign, title, key, onRebalance) {
  return h("button", { type: "button", class: "quiet", disabled: !key, title, "aria-label": title, onclick: () => onRebalance(key) }, sign);
}

function stepItem(entry, started) {
  const offset = entry.time_ms - started;
  const since = offset < 0 ? `−${duration(-offset)}` : `+${duration(offset)}`;
  const line = [h("time", { title: `${moment(entry.time_ms)} UTC` }, h("span", { class: "at" }, preciseClock(entry.time_ms)), h("span", { class: "since" }, since)),
    h("span", { class: "said" }, entry.text, entry.advice ? h("span", { class: "advice" }, entry.advice) : null, seenMark(entry.seen))];
  const kind = `${entry.is_cause ? "cause" : ""} ${entry.type ?? "note"}`;
  return h("li", { class: kind }, entry.cause ? h("details", {}, h("summary", {}, line), h("div", { class: "more" }, entry.type ? kindTag(entry.type) : null, requestDetails(entry.cause, entry.seen))) : h("div", { class: "plainstep" }, line));
}

/** Whom it waited for, as bars: from the start until told, from told until rejoined. */
function waitedFor(story, name, bySlot) {
  if (story.waiting.length) return [h("h3", {}, "Waiting for"), h("ul", { class: "who" }, story.waiting.map((id) => h("li", {}, name(id))))];
  if (story.waited_for.length === 0) return null;
  const ends = story.waited_for.map((member) => member.joined_ms ?? member.gone_ms ?? story.ended_ms ?? story.started_ms);
  const span = Math.max(1, ...ends.map((end) => end - story.started_ms));
  const part = (ms) => `${(100 * Math.max(0, ms - story.started_ms)) / span}%`;
  const row = (member, end) => {
    const toldAt = member.told_ms ?? end;
    const since = (ms) => (ms < story.started_ms ? `${duration(story.started_ms - ms)} before it` : `after ${duration(ms - story.started_ms)}`);
    const outcome = member.joined_ms !== null ? `${story.counts === "epoch" ? "gave up" : "rejoined"} after ${duration(member.joined_ms - story.started_ms)}` : `${member.fate}${member.gone_ms ? ` after ${duration(member.gone_ms - story.started_ms)}` : ""}`;
    const learned = member.told_ms === null ? "never told" : `told ${since(member.told_ms)}`;
    return h("li", { class: member.joined_ms === null ? "lost" : "" },
      h("div", { class: "line" }, name(member.member_id), member.is_slowest && story.waited_for.length > 1 ? h("span", { class: "tag warn" }, "slowest") : null, h("span", { class: "space" }), h("span", { class: "muted" }, `${learned}, ${outcome}`)),
      s("svg", { class: "wait", width: "100%", height: 8, role: "img", "aria-label": `${learned}, ${outcome}` },
        s("rect", { class: "untold", x: 0, y: 3, height: 2, width: part(toldAt) }),
        s("rect", { class: member.joined_ms === null ? "lost" : "joining", x: part(toldAt), y: 0, height: 8, rx: 1, width: `${(100 * Math.max(0, end - Math.max(toldAt, story.started_ms))) / span}%`, style: member.joined_ms === null ? {} : { fill: colour(bySlot.get(member.member_id)?.slot ?? -1) } })));
  };
  return [h("h3", {}, "Waited for"), h("ul", { class: "waits" }, story.waited_for.map((member, number) => row(member, ends[number])))];
}

function moved(story, name) {
  if (story.moves.length === 0) return null;
  const changed = story.moves.filter((move) => move.member_id_before !== move.member_id_after || move.member_id_after !== move.member_id_target);
  const sum = (moves) => moves.reduce((partitions, move) => partitions + move.partitions.length, 0);
  const total = sum(story.moves);
  const moved = sum(changed.filter((move) => move.member_id_before !== move.member_id_after));
  const onTheWay = sum(changed.filter((move) => move.member_id_after !== move.member_id_target));
  return [h("h3", {}, `Partitions: ${moved} of ${total} changed owner${onTheWay ? `, ${onTheWay} still to move` : ""}`),
    changed.length === 0 ? null : h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["Partitions", "Before", "Since"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, changed.slice(0, MOVES_SHOWN).map((move) => h("tr", {}, h("td", { class: "mono" }, `${move.topic} ${ranges(move.partitions)}`), h("td", {}, move.member_id_before ? name(move.member_id_before) : "nobody"), h("td", {}, move.member_id_after ? name(move.member_id_after) : "nobody", move.member_id_after === move.member_id_target ? null : h("small", {}, "shall go to ", move.member_id_target ? name(move.member_id_target) : "nobody")))))),
    changed.length > MOVES_SHOWN ? h("p", { class: "note" }, `… and ${changed.length - MOVES_SHOWN} more lines`) : null];
}

export function votesOf(votes, name) {
  if (!votes) return null;
  return [h("h3", {}, "Votes for the assignor"), h("ul", { class: "votes" }, Object.entries(votes.votes).map(([protocol, members]) => h("li", {},
    h("span", { class: "mono" }, protocol), protocol === votes.protocol ? h("span", { class: "tag good" }, votes.tie ? "chosen; a tie, settled as Kafka does" : "chosen") : null,
    h("span", { class: "muted" }, `${members.length}: `), members.map((id) => name(id)))))];
}

function whoIsWho(story) {
  return h("details", { class: "whoiswho" }, h("summary", {}, "Whom the names stand for"),
    h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["Member id", "Client id", "Host", "Instance"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, story.members.map((member) => h("tr", {}, h("td", { class: "mono id" }, member.member_id), h("td", { class: "mono" }, member.client_id), h("td", { class: "mono" }, host(member.host)), h("td", { class: "mono" }, member.group_instance_id ?? "–"))))));
}
