// Groups that count epochs (consumer, share, streams): what each member shall own, what it has, what it must give up.

import { h } from "dashboard/dom";
import { lastBefore } from "dashboard/data";
import { count } from "dashboard/format";
import { memberName } from "dashboard/rebalance";

export const KINDS = { consumer: "consumer group (KIP-848)", share: "share group", streams: "streams group" };

/** What a group counts: "generation" or "epoch". */
export const counts = (group) => (KINDS[group.kind] ? "epoch" : "generation");

/** The target and how far each member had come, at a moment; null where the group was a classic one then. */
function epochsAt(epochs, at) {
  const target = lastBefore(epochs.targets, at);
  if (!target || lastBefore(epochs.conversions, at)?.[1] === "classic") return null;
  const progress = {};
  for (const [time, id, ...rest] of epochs.members) {
    if (time > at) break;
    progress[id] = rest;
  }
  return { epoch: target[1], assignor: target[2], targets: target[3], progress };
}

export function epochsPanel(page, members, at, now) {
  if (!page.epochs) return null;
  const shown = now ? { epoch: null, targets: page.epochs.targets_now, progress: page.epochs.members_now } : epochsAt(page.epochs, at);
  if (!shown || !members.length || (now && !KINDS[page.group.kind])) return null;
  const rows = members.map((member) => row(member, shown.targets[member.id], shown.progress[member.id]));
  const revoking = rows.filter((entry) => entry.pending).length;
  const waiting = rows.filter((entry) => !entry.pending && !entry.settled).length;
  const parts = [revoking && `${count(revoking, "member")} still ${revoking === 1 ? "has" : "have"} to give up partitions`, waiting && `${waiting} ${waiting === 1 ? "is" : "are"} not there yet`].filter(Boolean);
  const title = shown.epoch === null ? "Target and current assignment" : `Target of epoch ${shown.epoch}${shown.assignor ? `, by ${shown.assignor}` : ""}`;
  return [h("h3", {}, title), h("p", { class: parts.length ? "because" : "note" }, parts.length ? `${parts.join(", ")}.` : "Every member has what the target gives it."),
    h("ul", { class: "targets" }, rows.map((entry) => entry.element))];
}

function row(member, target, progress) {
  const [status, epoch, has, pending] = progress ?? ["unknown", null, null, ""];
  const settled = status === "stable" && (target === undefined || target === has);
  const waits = status === "unreleased_partitions" ? "waits for what others give up" : status === "stable" && !settled ? "has not heard of it yet" : null;
  return { pending: Boolean(pending), settled, element: h("li", {},
    h("div", { class: "line" }, memberName(member, member.id), h("span", { class: "space" }), h("span", { class: "muted" }, epoch === null ? "" : `epoch ${epoch}`)),
    pending ? h("span", { class: "tag warn" }, `must give up ${pending}`) : null, waits ? h("span", { class: "tag busy" }, waits) : null,
    h("dl", {}, h("dt", {}, "has"), h("dd", { class: "mono" }, has ?? "not known"), h("dt", {}, "target"), h("dd", { class: "mono" }, target === undefined ? "–" : target === has ? h("span", { class: "muted" }, "the same") : target))) };
}
