// The frame: the bar at the top, which page is shown, what all pages share.

import { h, replace } from "dashboard/dom";
import * as data from "dashboard/data";
import { bytes, clock, count, day, number } from "dashboard/format";
import { address, go, onRoute, route, start } from "dashboard/route";
import { groupsView } from "dashboard/groups";
import { groupView } from "dashboard/group";
import { deadLettersView, eventsView } from "dashboard/events";
import { showHelp } from "dashboard/help";
import { readinessView } from "dashboard/readiness";
import { drawAges, watchedStrip } from "dashboard/watched";

const VIEWS = { groups: groupsView, group: groupView, events: eventsView, readiness: readinessView, "dead-letters": deadLettersView };
const TITLES = { groups: "Groups", group: "Group", events: "Events", readiness: "Readiness", "dead-letters": "Dead letters" };

const app = { overview: null, looked: 0, now: 0, heard: 0, live: false, link: "open", view: null, viewName: "" };
const main = document.getElementById("main");
const bar = document.getElementById("bar");
const doubts = document.getElementById("doubts");
const DOUBTS_SHOWN = 4;
const watched = document.getElementById("watched");
const LOOK_AGAIN_MS = 3000;

/** The present: of a live history the server's clock, else its end. */
app.clock = () => (app.live ? app.now + (performance.now() - app.heard) : app.now);

function theme(next) {
  const chosen = next ?? localStorage.getItem("theme") ?? "";
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  if (next !== undefined) {
    if (chosen) localStorage.setItem("theme", chosen);
    else localStorage.removeItem("theme");
  }
}

function turnTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  theme(dark ? "light" : "dark");
  app.view?.restyle?.();
}

function drawBar() {
  const { view } = route();
  const link = (name, text, badge, kind) => h("a", { class: kind, href: address(name), "aria-current": view === name || (name === "groups" && view === "group") ? "page" : null }, text, badge ? h("span", { class: "badge" }, number(badge)) : null);
  const overview = app.overview;
  replace(bar,
    h("a", { class: "brand", href: address("groups"), "aria-label": "Group Coordinator: all groups" }, logo(), h("span", { class: "wide" }, "Group Coordinator")),
    h("nav", { "aria-label": "Pages" }, link("groups", "Groups"), link("events", "Events"), link("readiness", "Readiness", null, "wide"), link("dead-letters", "Dead letters", overview.dead_letters)),
    h("span", { class: "space" }),
    h("span", { class: "source wide", title: sourceTitle() }, overview.is_report ? "report of " : "", overview.source),
    clockElement(),
    h("button", { type: "button", class: "quiet", title: "Dark or light (d)", "aria-label": "Dark or light", onclick: turnTheme }, "◐"),
    h("button", { type: "button", class: "quiet", title: "Keys (?)", "aria-label": "Keyboard shortcuts", onclick: showHelp }, "?"),
  );
}

/** The cluster that is watched, its sources and their ages. What is open stays open, and the focus where it is. */
function drawWatched() {
  const clusters = app.overview.watched;
  watched.hidden = clusters.length === 0;
  const before = [...watched.querySelectorAll("details")].map((details) => ({ open: details.open, focus: details.contains(document.activeElement) }));
  replace(watched, watchedStrip(clusters, app.overview.caught_up, app.live ? app.clock() : null));
  [...watched.querySelectorAll("details")].forEach((details, number) => {
    details.open = before[number]?.open ?? false;
    if (before[number]?.focus) details.firstElementChild.focus();
  });
}

/** What may be wrong in all that is shown: above every page, the first sentences at once, the others on demand. */
function drawDoubts() {
  const all = app.overview.doubts ?? [];
  const list = (texts) => h("ul", {}, ...texts.map((text) => h("li", {}, text)));
  const rest = all.slice(DOUBTS_SHOWN);
  doubts.hidden = all.length === 0;
  replace(doubts,
    h("strong", {}, "What is shown may not be what happened:"),
    list(all.slice(0, DOUBTS_SHOWN)),
    rest.length ? h("details", {}, h("summary", {}, `and ${number(rest.length)} more`), list(rest)) : "",
  );
}

function logo() {
  const icon = document.querySelector("link[rel=icon]").href;
  return h("img", { src: icon, alt: "", width: 22, height: 22 });
}

function sourceTitle() {
  const { source, records, groups, kept_bytes: kept, first_ms: first, last_ms: last } = app.overview;
  const span = first === null ? "" : `, ${day(first)} ${clock(first)} to ${day(last)} ${clock(last)} UTC`;
  return `${source}: ${count(records, "record")} of ${count(groups, "group")}${span}; ${bytes(kept)} kept`;
}

function clockElement() {
  app.clockElement = h("span", { class: "clock" });
  drawClock();
  return app.clockElement;
}

function drawClock() {
  if (!app.clockElement) return;
  const now = app.clock();
  const { caught_up: caughtUp, progress, is_report: report } = app.overview;
  const [tone, word] = report ? ["calm", "report"]
    : !app.live ? ["calm", "replay"]
      : app.link === "lost" ? ["bad", "no connection"]
        : caughtUp ? ["good", "live"] : ["busy", progress || "reading"];
  replace(app.clockElement, h("span", { class: `dot ${tone}` }), h("span", { class: "wide" }, word, " · "), h("time", { title: "The present of this dashboard, UTC" }, h("span", { class: "utc" }, now ? `${day(now)} ` : ""), now ? clock(now) : "", h("span", { class: "utc" }, " UTC")));
}

function show({ view, name, parameters }) {
  const make = VIEWS[view] ?? groupsView;
  const same = app.view && app.viewName === `${view}/${name}`;
  drawBar();
  document.title = `${name || TITLES[view] || "Groups"} · Group Coordinator`;
  if (same && app.view.amended) {
    app.view.amended(parameters);
    return;
  }
  app.view?.close?.();
  app.viewName = `${view}/${name}`;
  app.view = make(app, name, parameters);
  replace(main, app.view.element);
  document.body.dataset.view = view;
  app.view.shown?.();
}

function keys(event) {
  const writing = event.target.matches?.("input:not([type=range]), select, textarea");
  if (event.key === "Escape" && writing) event.target.blur();
  if (writing || event.metaKey || event.ctrlKey || event.altKey || document.querySelector("dialog[open]")) return;
  const search = document.querySelector("input[type=search]");
  if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "?") showHelp();
  else if (event.key === "d") turnTheme();
  else if (event.key === "g") go("groups");
  else if (event.key === "e") go("events");
  else app.view?.key?.(event);
}

function listen() {
  data.listen({
    state: (state) => {
      app.link = state;
      drawClock();
    },
    clock: ({ now, records, groups }) => {
      app.now = now;
      app.heard = performance.now();
      Object.assign(app.overview, { records, groups });
      drawClock();
      const again = app.overview.watched.length > 0 && performance.now() - app.looked > LOOK_AGAIN_MS;
      if (again || !app.overview.caught_up) look();
    },
    rows: (rows) => app.view?.rows?.(rows),
    reload: () => app.view?.reload?.(),
    events: (news) => app.view?.events?.(news),
  });
}

async function look() {
  app.looked = performance.now();
  app.overview = await data.overview();
  drawDoubts();
  drawWatched();
}

async function begin() {
  theme();
  try {
    await look();
  } catch (problem) {
    replace(main, h("p", { class: "loading" }, `The dashboard does not answer: ${problem.message}`));
    return;
  }
  app.now = app.overview.now_ms;
  app.heard = performance.now();
  app.live = app.overview.is_live;
  drawWatched();
  onRoute(show);
  start();
  listen();
  addEventListener("keydown", keys);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.view?.restyle?.());
  if (app.live) setInterval(() => { drawClock(); drawAges(watched, app.clock()); }, 1000);
}

begin();
