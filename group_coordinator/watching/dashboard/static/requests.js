// The very request (or timer, or other event) behind a record.

import { copyButton, h, replace } from "dashboard/dom";
import * as data from "dashboard/data";
import { host, moment, preciseClock } from "dashboard/format";

export function requestDetails(request, seen) {
  if (!request) return null;
  if (seen) return seenDetails(seen, request.reason);
  const entries = request.kind === "request"
    ? [["request", `${request.api} v${request.api_version ?? "?"}`], ["reason given", request.reason], ["client id", request.client_id], ["host", host(request.client_host)],
      ["member id", request.member_id], ["instance id", request.group_instance_id], ["request id", request.request_id]]
    : request.kind !== "timer" ? [["event", request.kind.replaceAll("_", " ")]]
    : [["timer", request.timer?.replaceAll("_", " ")], ["of member", request.member_id], ["armed", request.armed_ms && `${moment(request.armed_ms)} (by the group's clock)`],
      ["due", request.deadline_ms && `${moment(request.deadline_ms)}`]];
  const place = `events partition ${request.partition}, offset ${request.offset}`;
  return h("div", { class: "request" },
    h("dl", {}, entries.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)]),
      h("dt", {}, request.kind === "timer" ? "armed by" : "lies at"), h("dd", { class: "mono" }, place, " ", copyButton(place, "Copy the place in the log"))),
    data.isReport ? null : wholeRequest(request));
}

/** Where a watched cluster says so, and how surely. */
export function seenMark(seen) {
  if (!seen) return null;
  return h("span", { class: "seen", title: seen.places }, seen.sources, seen.certainty ? [" ", h("span", { class: "tag" }, seen.certainty)] : null);
}

const CERTAINTIES = { inferred: "no record or line says it in so many words: it follows from them", "not known": "nobody says it", "not confirmed": "only a line of a broker's log says it: a client can write such a line, and no later line or record confirms it" };

function seenDetails(seen, reason) {
  const entries = [["seen in", [seen.places, " ", copyButton(seen.places, "Copy where it was seen")]], ["reason given", reason], [seen.certainty, CERTAINTIES[seen.certainty]]];
  return h("div", { class: "request" }, h("dl", {}, entries.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)])));
}

function wholeRequest(request) {
  const box = h("div", {});
  const button = h("button", { type: "button", class: "quiet", onclick: async () => {
    button.disabled = true;
    try {
      const logged = await data.veryRequest(request.partition, request.offset);
      replace(box, h("p", { class: "note" }, `appended ${preciseClock(logged.timestamp_ms)} UTC`), h("pre", { tabindex: "0" }, JSON.stringify(logged.value, null, 2)));
    } catch (problem) {
      replace(box, h("p", { class: "note" }, problem.message));
    }
    button.remove();
  } }, "Show the whole event");
  return h("div", {}, button, box);
}
