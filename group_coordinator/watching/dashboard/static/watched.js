// What the page watches: above every page of a cluster whose own brokers coordinate its groups.

import { h } from "dashboard/dom";
import { clock, day, moment, preciseClock, roughly } from "dashboard/format";

const TONES = { good: "read", busy: "being read", bad: "not read" };

/** `now` is null where nothing grows: then times stand instead of ages. */
export function watchedStrip(clusters, caughtUp, now) {
  return clusters.map((cluster) => h("section", { class: "cluster" },
    h("details", {},
      h("summary", {}, h("span", { class: "watches" }, now === null ? "From " : "Watches ", h("strong", {}, cluster.cluster)), cluster.sources.map((source) => mark(source, caughtUp, now))),
      table(cluster)),
    cluster.not_known.length ? h("p", { class: "notknown" }, h("b", {}, "Not known: "), cluster.not_known.join(" ")) : null));
}

function mark(source, caughtUp, now) {
  const tone = source.problem ? "bad" : caughtUp && source.to_ms !== null || now === null ? "good" : "busy";
  return h("span", { class: "seensource" }, h("i", { class: `dot ${tone}` }), h("span", { class: "hidden" }, `${TONES[tone]}: `), source.name, age(source, now));
}

function age(source, now) {
  if (source.problem) return h("small", {}, source.problem);
  const at = now === null ? source.last_ms : source.to_ms;
  if (at === null) return null;
  return now === null ? h("small", {}, `to ${clock(at)}`) : h("small", { "data-since": at }, roughly(now - at));
}

/** Ages grow between two looks. */
export function drawAges(element, now) {
  for (const age of element.querySelectorAll("[data-since]")) age.textContent = roughly(now - Number(age.dataset.since));
}

function table({ detail, sources }) {
  const time = (ms) => (ms === null ? "–" : h("time", { title: `${moment(ms)} UTC` }, `${day(ms)} ${preciseClock(ms)}`));
  return h("div", { class: "sources" }, detail ? h("p", { class: "note" }, detail) : null,
    h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["Source", "Read", "Last record or line", "Tells up to"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, sources.map((source) => h("tr", {}, h("td", { class: "mono" }, source.name), h("td", { class: "detail" }, source.problem ? h("span", { class: "tag warn" }, source.problem) : null, " ", source.detail), h("td", {}, time(source.last_ms)), h("td", {}, time(source.to_ms)))))));
}
