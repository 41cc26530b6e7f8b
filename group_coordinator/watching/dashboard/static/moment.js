// The group at a moment: who owned what, and the offsets as they were. Without a moment: now.

import { h } from "dashboard/dom";
import { lastBefore } from "dashboard/data";
import { clock, day, duration, number, partitionName, preciseClock, roughly } from "dashboard/format";
import { conversions, countsAt, epochsPanel } from "dashboard/epochs";
import { memberName } from "dashboard/rebalance";
import { state, trigger } from "dashboard/verdicts";

function gapAt(lane, at) {
  return lane.gaps.find(([from, to]) => from <= at && at < (to ?? Infinity))?.[2] ?? null;
}

export function ownerAt(lane, at) {
  return lane.owned.find(([, from, to]) => from <= at && at < (to ?? Infinity)) ?? null;
}

/** The last committed offset that is not after the moment; null: there was none within the window. */
export function offsetAt(offsets, at) {
  let index = null;
  for (let number = 0; number < offsets.times_ms.length && offsets.times_ms[number] <= at; number++) index = number;
  return index === null ? null : { offset: offsets.offsets[index], committed: offsets.times_ms[index] };
}

export function momentPanel(page, at, { onPresent, onRebalance }) {
  const time = at ?? page.now;
  const now = at === null;
  const [, name, generation] = lastBefore(page.states, time) ?? [0, "none", 0];
  const members = page.members.filter((member) => member.joined !== null && member.joined <= time && time < (member.ended ?? Infinity));
  const running = page.rebalances.find((rebalance) => rebalance.started_ms <= time && time < (rebalance.ended_ms ?? Infinity));
  const latest = now ? page.rebalances[page.rebalances.length - 1] : null;
  return h("section", { class: "panel moment", "aria-label": "The group at a moment" },
    h("header", {}, h("h2", {}, now ? (page.live ? "Now" : "At the end") : preciseClock(time)), now ? h("span", { class: "muted" }, clock(time)) : h("span", { class: "muted" }, day(time), " UTC"), h("span", { class: "space" }),
      now ? null : h("button", { type: "button", class: "quiet", title: "Back to the present (Esc)", "aria-label": "Back to the present", onclick: onPresent }, "✕")),
    h("dl", { class: "numbers" }, h("div", {}, h("dt", {}, "state"), h("dd", {}, state(name))), h("div", {}, h("dt", {}, countsAt(page, time)), h("dd", {}, number(generation))), h("div", {}, h("dt", {}, "members"), h("dd", {}, number(members.length)))),
    running ? h("p", { class: "because" }, "In a rebalance since ", duration(time - running.started_ms), ": ", running.cause, ". ", h("button", { type: "button", class: "linklike", onclick: () => onRebalance(running.key) }, "Step by step")) : null,
    latest && !running ? [h("h3", {}, "Last rebalance"), h("p", { class: "because" }, trigger(latest.trigger), " ", latest.cause, h("span", { class: "muted" }, `, ${roughly(time - latest.started_ms)} ago${latest.is_begin_known ? `, took ${duration(latest.duration_ms)}` : ""}. `), h("button", { type: "button", class: "linklike", onclick: () => onRebalance(latest.key) }, "Step by step"))] : null,
    epochsPanel(page, members, time, now), now ? conversions(page) : null,
    owners(page, time, now), lonely(page, members, time));
}

function owners(page, time, now) {
  const offsets = new Map(page.offsets.map((partition) => [`${partition.topic} ${partition.partition}`, partition]));
  const places = [...new Set([...page.lanes.map((lane) => `${lane.topic} ${lane.partition}`), ...offsets.keys()])];
  const lanes = new Map(page.lanes.map((lane) => [`${lane.topic} ${lane.partition}`, lane]));
  const row = (place) => {
    const lane = lanes.get(place);
    const offset = offsets.get(place);
    const owned = lane ? ownerAt(lane, time) : null;
    const member = owned ? page.members[owned[0]] : null;
    const was = now && offset ? { offset: offset.committed_offset, committed: offset.committed_ms } : offset ? offsetAt(offset, time) : null;
    const end = offset ? lastBefore(offset.end_times_ms.map((each, at) => [each, offset.end_offsets[at]]), time) : null;
    const lag = now ? offset?.lag ?? null : end && was && was.offset !== null ? Math.max(0, end[1] - was.offset) : null;
    return h("tr", {}, h("td", { class: "mono" }, place.replace(/ (-?\d+)$/, (_, partition) => `-${partitionName(Number(partition))}`)), h("td", {}, member ? memberName(member, member.id) : lane ? (gapAt(lane, time) === "not_known" ? h("span", { class: "muted" }, "not known") : h("span", { class: "nobody" }, "nobody")) : h("span", { class: "muted" }, "not assigned")),
      h("td", { class: "number" }, was === null ? "–" : number(was.offset)), h("td", { class: "number" }, lag === null ? "–" : number(lag)));
  };
  if (places.length === 0) return h("p", { class: "nothing" }, "No partition, no offset.");
  return [h("h3", {}, now ? "Owners and offsets" : "Owners and offsets as they were"),
    h("table", { class: "plain owners" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Partition"), h("th", { scope: "col" }, "Owner"), h("th", { scope: "col", class: "number" }, "Offset"), h("th", { scope: "col", class: "number" }, "Lag"))), h("tbody", {}, places.slice(0, 500).map(row))),
    places.length > 500 ? h("p", { class: "note" }, `… and ${places.length - 500} more`) : null];
}

function lonely(page, members, time) {
  const busy = new Set(page.lanes.map((lane) => ownerAt(lane, time)?.[0]).filter((slot) => slot !== undefined));
  const idle = members.filter((member) => !busy.has(page.members.indexOf(member)));
  return idle.length === 0 ? null : [h("h3", {}, "Members without a partition"), h("ul", { class: "who" }, idle.map((member) => h("li", {}, memberName(member, member.id))))];
}
