// Where documents come from: the server, or the report's own file.

const embedded = new Map(
  [...document.querySelectorAll("script[data-document]")].map((each) => [each.dataset.document, each]),
);
const unpacked = new Map();

export const isReport = embedded.size > 0;

async function unpack(name) {
  if (!unpacked.has(name)) {
    const element = embedded.get(name);
    if (!element) throw new Error("This report does not have it.");
    const packed = await (await fetch(`data:application/octet-stream;base64,${element.textContent}`)).blob();
    const text = await new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).text();
    unpacked.set(name, JSON.parse(text));
  }
  return unpacked.get(name);
}

async function ask(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const response = await fetch(`/api/v1/${path}${query.size ? `?${query}` : ""}`, { headers: { accept: "application/json" } });
  const document = await response.json().catch(() => ({ error: `The server answered ${response.status}.` }));
  if (!response.ok) throw new Error(document.error ?? `The server answered ${response.status}.`);
  return document;
}

/** What is of one group is named by its id in a form that HTML leaves alone, as `dashboard/report.py` writes it. */
const ofGroup = (kind, group) => `${kind}/${encodeURIComponent(group)}`;

export function overview() {
  return isReport ? unpack("overview") : ask("overview");
}

/** All of them, page by page; those that take long to be brought up to date come with the stream. */
export async function groups(at = null) {
  if (isReport) return at === null ? unpack("groups") : { now_ms: (await unpack("groups")).now_ms, groups: groupsAt(await unpack("timelines"), at) };
  if (at !== null) return ask("past-groups", { at_ms: at });
  const all = [];
  let answer = { next_page: null };
  do {
    answer = await ask("groups", { page: answer.next_page, limit: 20000, max_wait_ms: 50 });
    all.push(...answer.groups);
  } while (answer.next_page !== null);
  return { ...answer, groups: all };
}

/** Which classic groups can go over to the consumer protocol, page by page. */
export async function readiness({ q, show, page }) {
  if (!isReport) return ask("readiness", { contains: q, verdict: show, page, limit: 50 });
  const all = await unpack("readiness");
  const asked = all.groups.filter((each) => each.group_id.includes(q));
  const counts = {};
  for (const each of asked) counts[each.verdict] = (counts[each.verdict] ?? 0) + 1;
  return { ...all, counts, groups: asked.filter((each) => !show || each.verdict === show) };
}

export function group(id) {
  return isReport ? unpack(ofGroup("group", id)) : ask("group-over-time", { group: id });
}

export async function rebalance(id, key) {
  if (!isReport) return ask("rebalance", { group: id, rebalance: key });
  const story = (await unpack(ofGroup("rebalances", id)))[key];
  if (!story) throw new Error("This report has no details of this rebalance.");
  return story;
}

export function whatIf(id, change) {
  return ask("what-if", { group: id, ...change });
}

/** The newest first; `before` is the number of an event. */
export async function events({ group, type, q, before }) {
  if (!isReport) return ask("events", { group, kind: type, contains: q, page: before, limit: 500 });
  const text = (q ?? "").toLowerCase();
  const { events: all } = await unpack("events");
  return {
    events: all.filter((item) => (!group || item.group_id === group) && (!type || item.type === type)
      && (!text || `${item.group_id} ${item.text}`.toLowerCase().includes(text)) && (!before || item.number < before)),
  };
}

export function deadLetters() {
  return isReport ? unpack("dead-letters") : ask("dead-letters");
}

export function veryRequest(partition, offset) {
  return ask("request", { partition, offset });
}

/** Server-sent events: handlers by name; `state` hears "open" and "lost". */
export function listen(handlers) {
  if (isReport) return () => {};
  const stream = new EventSource("/api/stream");
  for (const [kind, handle] of Object.entries(handlers)) {
    if (kind === "state") continue;
    stream.addEventListener(kind, (event) => handle(JSON.parse(event.data)));
  }
  stream.onopen = () => handlers.state?.("open");
  stream.onerror = () => handlers.state?.("lost");
  return () => stream.close();
}

/** Of a list that is sorted by its first fields: the last entry that is not after the time. */
export function lastBefore(entries, at) {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (entries[middle][0] <= at) low = middle + 1;
    else high = middle;
  }
  return low ? entries[low - 1] : null;
}

function groupsAt(timelines, at) {
  const groups = [];
  for (const [id, states] of Object.entries(timelines)) {
    const state = lastBefore(states, at);
    if (state && state[1] !== "Dead") groups.push({ group_id: id, state_since_ms: state[0], state: state[1], generation: state[2], members: state[3] });
  }
  return groups;
}
