// Groups that count epochs (consumer, share, streams): what each member shall own, what it has, who holds up whom.

import { h } from "dashboard/dom";
import { lastBefore } from "dashboard/data";
import { clock, count, duration, moment } from "dashboard/format";
import { memberName } from "dashboard/rebalance";
import { requestDetails } from "dashboard/requests";

export const KINDS = { consumer: "consumer group (KIP-848)", share: "share group", streams: "streams group" };

/** What a group counts: "generation" or "epoch". */
export const counts = (group) => (KINDS[group.type] ? "epoch" : "generation");

/** The same at a moment: a group that went over to the other protocol counted the other thing before. */
export function countsAt(page, at) {
  const conversions = page.epochs?.conversions ?? [];
  const protocol = lastBefore(conversions, at)?.[1];
  if (protocol) return protocol === "classic" ? "generation" : "epoch";
  return conversions.length ? (conversions[0][1] === "classic" ? "epoch" : "generation") : counts(page.group);
}

/** The assignor in force: of a group that counts epochs, the one that made its target. */
export function assignor(page) {
  return counts(page.group) === "epoch" ? page.epochs?.targets.at(-1)?.[2] : page.votes?.protocol;
}

/** The group as it is, in the form of `epochsAt`. */
function epochsNow(page) {
  const { now } = page.epochs;
  return KINDS[page.group.type] && now.targets ? { ...now, epoch: now.target_epoch, assignor: null, progress: now.members } : null;
}

/** The target, how far each member had come and who held up whom, at a moment; null where the group was a classic one then. */
function epochsAt(epochs, at) {
  const target = lastBefore(epochs.targets, at);
  if (!target || lastBefore(epochs.conversions, at)?.[1] === "classic") return null;
  const latest = (entries) => {
    const values = {};
    for (const [time, id, ...rest] of entries) {
      if (time > at) break;
      values[id] = rest;
    }
    return values;
  };
  return {
    epoch: target[1], assignor: target[2], targets: target[3], progress: latest(epochs.members),
    holders: epochs.holders.filter(([from, to]) => from <= at && at < (to ?? Infinity)).map((span) => span[2]),
    classic: lastBefore(epochs.classic, at)?.[1] ?? [],
    regexes: Object.fromEntries(Object.entries(latest(epochs.regexes)).map(([regex, [topics]]) => [regex, topics]).filter(([, topics]) => topics !== null)),
  };
}

export function epochsPanel(page, members, at, now) {
  if (!page.epochs) return null;
  const shown = now ? epochsNow(page) : epochsAt(page.epochs, at);
  if (!shown || !members.length) return null;
  const name = (id) => memberName(page.members.findLast((member) => member.id === id), id);
  const rows = members.map((member) => row(member, shown, name, at));
  const late = rows.filter((entry) => !entry.holds && !entry.settled).length;
  const holders = shown.holders.map((holder) => h("li", { class: holder.since_ms === null ? "" : "culprit" }, heldUp(holder, name, at)));
  const quiet = late ? `${count(late, "member")} ${late === 1 ? "is" : "are"} on the way to the target.` : "Every member has what the target gives it.";
  return [h("h3", {}, `Target of epoch ${shown.epoch}${shown.assignor ? `, by ${shown.assignor}` : ""}`),
    holders.length ? h("ul", { class: "holders", "aria-label": "Who holds up the group" }, holders) : h("p", { class: late ? "because" : "note" }, quiet),
    h("ul", { class: "targets" }, rows.map((entry) => entry.element)),
    regexes(shown.regexes)];
}

/** Who must give up what, since when, until when, and who waits for it. */
export function heldUp({ member_id: id, partitions, since_ms: since, until_ms: until, waiting }, name, at) {
  const waits = waiting.length ? ["; ", waiting.flatMap((each, number) => [number ? ", " : "", name(each)]), waiting.length === 1 ? " waits for it" : " wait for it"] : null;
  const time = since === null ? " and has not heard of it yet" : h("span", { title: `${moment(since)} UTC` }, ` since ${clock(since)}`, at > since ? `, for ${duration(at - since)}` : null);
  return [name(id), " must give up ", h("span", { class: "mono" }, partitions), time, waits, until ? h("span", { class: "muted" }, ` (else it is dropped at ${clock(until)})`) : null];
}

function row(member, shown, name, at) {
  const target = shown.targets[member.id];
  const [status, epoch, has, pending] = shown.progress[member.id] ?? ["unknown", null, null, ""];
  const holder = shown.holders.find((each) => each.member_id === member.id);
  const settled = status === "stable" && (target === undefined || target === has);
  const awaited = shown.holders.filter((each) => each.waiting.includes(member.id)).map((each) => each.member_id);
  const isBehind = epoch !== null && epoch >= 0 && epoch < shown.epoch;
  const waits = status === "unreleased_partitions" ? (awaited.length ? ["waits for ", awaited.flatMap((each, number) => [number ? ", " : "", name(each)])] : "waits for what others give up")
    : status === "stable" && !settled && !holder ? "has not heard of it yet" : null;
  return { holds: Boolean(holder), settled, element: h("li", {},
    h("div", { class: "line" }, memberName(member, member.id), shown.classic.includes(member.id) ? h("span", { class: "tag", title: "It speaks the classic protocol, and goes on with it in this group" }, "classic protocol") : null, h("span", { class: "space" }),
      h("span", { class: isBehind ? "behind" : "muted", title: isBehind ? "Behind the target's epoch" : "" }, epoch === null ? "" : epoch === -2 ? "away" : `epoch ${epoch}`)),
    holder ? h("span", { class: "tag warn" }, `must give up ${holder.partitions}`, holder.since_ms === null || at <= holder.since_ms ? null : ` for ${duration(at - holder.since_ms)}`) : pending ? h("span", { class: "tag warn" }, `must give up ${pending}`) : null,
    waits ? h("span", { class: "tag busy" }, waits) : null,
    h("dl", {}, h("dt", {}, "has"), h("dd", { class: "mono" }, has === null ? (target === undefined ? "not known" : "nothing yet") : held(has, pending)), h("dt", {}, "target"), h("dd", { class: "mono" }, target === undefined ? "–" : target === has && !pending ? h("span", { class: "muted" }, "the same") : target))) };
}

/** What a member has in hand: what it must give up is its own until it has. */
function held(has, pending) {
  if (!pending) return has;
  return [has === "nothing" ? null : `${has}; `, h("s", { title: "It must give this up" }, pending)];
}

function regexes(found) {
  const entries = Object.entries(found ?? {});
  if (entries.length === 0) return null;
  return [h("h3", {}, "Regular expressions"), h("dl", { class: "regexes" }, entries.map(([regex, topics]) => [h("dt", { class: "mono" }, regex),
    h("dd", {}, topics === null ? h("span", { class: "tag busy" }, "not resolved yet") : topics.length ? h("span", { class: "mono" }, topics.join(", ")) : "matches no topic")]))];
}

/** When and why the group changed its type. */
export function conversions(page) {
  const all = page.epochs?.conversions ?? [];
  if (all.length === 0) return null;
  return [h("h3", {}, "Migrations"), h("ul", { class: "conversions" }, all.map(([time, , text, cause, seen]) => h("li", {},
    h("details", {}, h("summary", {}, h("time", { title: `${moment(time)} UTC` }, clock(time)), " ", text), requestDetails(cause, seen)))))];
}
