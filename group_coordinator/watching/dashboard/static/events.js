// The feed of all groups' records, and the dead letters.

import { h, replace, throttled } from "dashboard/dom";
import * as data from "dashboard/data";
import { clock, count, day, moment, number, preciseClock } from "dashboard/format";
import { address, amend } from "dashboard/route";
import { requestDetails } from "dashboard/requests";

const KINDS = [
  "group_created", "group_empty", "group_stable", "group_dead", "member_id_assigned", "pending_member_removed", "member_joined",
  "member_rejoined", "member_left", "member_expired", "member_dropped", "member_replaced", "member_fenced", "rebalance_started",
  "rebalance_extended", "join_phase_completed", "protocol_chosen", "leader_elected", "assignment_received", "rebalance_completed",
  "offsets_committed", "offsets_expired", "offsets_deleted", "request_refused",
  "group_epoch_bumped", "target_assignment_computed", "consumer_member_joined", "consumer_member_updated", "consumer_member_away",
  "member_reconciled", "members_reconciled", "group_reconciling", "regex_resolved", "group_converted",
  "transactional_offsets_pending", "transactional_offsets_aborted", "transactional_offsets_replaced",
  "group_recorded", "recording_gap", "member_gone", "ownership_not_known", "generations_not_recorded", "coordinator_changed",
  "coordinator_stalled", "member_restored", "group_restored", "offsets_removed",
];
const TONES = { member_expired: "bad", member_dropped: "bad", request_refused: "warn", member_left: "warn", member_fenced: "bad", rebalance_started: "busy", rebalance_completed: "good", group_stable: "good", group_epoch_bumped: "busy", members_reconciled: "good", transactional_offsets_aborted: "warn" };
const SHOWN_MAX = 2000;

export const words = (kind) => kind.replaceAll("_", " ");

export function kindTag(kind) {
  return h("span", { class: `tag ${TONES[kind] ?? ""}` }, words(kind));
}

/** Groups are told batch by batch, so what comes later may have happened before. */
function latestFirst(events) {
  return events.toSorted((left, right) => right.time_ms - left.time_ms || right.number - left.number);
}

export function eventsView(app, _, parameters) {
  const filter = { q: "", type: "", group: "", commits: "" };
  let events = [];
  let paused = false;
  let waiting = 0;

  const search = h("input", { type: "search", placeholder: "Search in what is said", "aria-label": "Search events", oninput: throttled(150, () => set({ q: search.value })) });
  const group = h("input", { type: "text", placeholder: "group id", "aria-label": "Only this group", oninput: throttled(250, () => set({ group: group.value.trim() })) });
  const type = h("select", { "aria-label": "Only this kind", onchange: () => set({ type: type.value }) }, h("option", { value: "" }, "every kind"), KINDS.map((kind) => h("option", { value: kind }, words(kind))));
  const commits = h("input", { type: "checkbox", onchange: () => set({ commits: commits.checked ? "yes" : "" }) });
  const pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => { paused = !paused; pause.setAttribute("aria-pressed", String(paused)); if (!paused) load(); tell(); } }, "Pause");
  const tally = h("p", { class: "tally" });
  const list = h("ol", { class: "feed" });
  const more = h("button", { type: "button", onclick: () => load(Math.min(...events.map((item) => item.number))) }, "Older ones");
  const element = h("div", { class: "events" }, h("h1", { class: "hidden" }, "Events"),
    h("div", { class: "tools" }, search, group, type, h("label", { class: "check" }, commits, " with commits"), app.live ? pause : null, tally),
    h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Events, the newest first" }, list, h("p", { class: "more" }, more)));

  const wanted = (item) => (!filter.group || item.group_id === filter.group) && (!filter.type || item.type === filter.type)
    && (filter.commits || filter.type === "offsets_committed" || item.type !== "offsets_committed")
    && (!filter.q || `${item.group_id} ${item.text}`.toLowerCase().includes(filter.q.toLowerCase()));

  function set(changes) {
    Object.assign(filter, changes);
    amend(filter);
    load();
  }

  async function load(before) {
    const { commits: _commits, ...asked } = filter;
    const older = (await data.events({ ...asked, before })).events;
    more.hidden = older.length === 0;
    events = latestFirst(before ? [...events, ...older] : older);
    waiting = 0;
    replace(list, events.filter(wanted).map(item));
    tell();
  }

  function tell() {
    replace(tally, paused && waiting ? `paused, ${count(waiting, "new one")}` : `${number(list.childElementCount)} shown`);
  }

  function item(record) {
    return h("li", { class: record.type === "request_refused" ? "refused" : "" },
      h("details", {}, h("summary", {},
        h("time", { title: `${moment(record.time_ms)} UTC` }, preciseClock(record.time_ms)), h("span", { class: "mono of" }, record.group_id), kindTag(record.type), h("span", { class: "said" }, record.text)),
      h("p", { class: "lead" }, h("a", { href: address("group", record.group_id, { at: record.time_ms }) }, `Group ${record.group_id} at this moment`)), requestDetails(record.cause, record.seen)));
  }

  function news({ events: fresh }) {
    const matching = latestFirst(fresh.filter(wanted));
    if (paused) {
      waiting += matching.length;
      return tell();
    }
    events = [...fresh, ...events].slice(0, SHOWN_MAX);
    list.prepend(...matching.map(item));
    while (list.childElementCount > SHOWN_MAX) list.lastChild.remove();
    tell();
  }

  function read(given) {
    for (const name of Object.keys(filter)) filter[name] = given.get(name) ?? "";
    search.value = filter.q;
    group.value = filter.group;
    type.value = filter.type;
    commits.checked = filter.commits === "yes";
  }

  read(parameters);
  load();
  return { element, events: news, reload: () => load(), amended: (given) => { read(given); load(); } };
}

export function deadLettersView() {
  const body = h("div", { class: "prose" }, h("p", {}, "Loading …"));
  data.deadLetters().then(({ dead_letters: letters }) => {
    replace(body, letters.length === 0
      ? h("p", { class: "nothing" }, "No dead letters: every event could be read.")
      : [h("p", {}, `${count(letters.length, "event")} could not be read. They lie on the dead letters topic as they came, and nothing else was held up by them.`),
        h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["Time", "Group", "Reason", "Detail", "Place in the log", "Value"].map((title) => h("th", { scope: "col" }, title)))),
          h("tbody", {}, letters.map((each) => h("tr", {}, h("td", {}, each.timestamp_ms ? `${day(each.timestamp_ms)} ${clock(each.timestamp_ms)}` : "–"), h("td", { class: "mono" }, each.group_id ?? "no key"), h("td", {}, h("span", { class: "tag bad" }, words(each.reason))), h("td", {}, each.detail),
            h("td", { class: "mono" }, each.offset === null ? "–" : `partition ${each.partition}, offset ${each.offset}`), h("td", {}, h("details", {}, h("summary", {}, "show"), h("pre", {}, each.value || "(empty)")))))))]);
  }).catch((problem) => replace(body, h("p", { class: "nothing" }, problem.message)));
  return { element: h("div", { class: "scroller page", tabindex: "0", role: "region", "aria-label": "Dead letters" }, h("h1", {}, "Dead letters"), body) };
}
