// The address says everything that is shown, so that it can be sent to somebody else.
//   #/groups?q=pay&show=flapping&sort=lag&at=1767225600000
//   #/group/payments?rebalance=6-898&tab=members&at=…&from=…&to=…

const listeners = [];
let last = null;

export function route() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const [view = "", ...rest] = path.replace(/^\//, "").split("/");
  return { view: view || "groups", name: decodeURIComponent(rest.join("/")), parameters: new URLSearchParams(query) };
}

export function address(view, name = "", parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return `#/${view}${name ? `/${encodeURIComponent(name)}` : ""}${query.size ? `?${query}` : ""}`;
}

/** Another page: the way back leads here. */
export function go(view, name, parameters) {
  location.hash = address(view, name, parameters);
}

/** Another look at the same page: no step in the browser's history. */
export function amend(changes) {
  const { view, name, parameters } = route();
  const merged = { ...Object.fromEntries(parameters), ...changes };
  history.replaceState(null, "", address(view, name, merged));
}

export function onRoute(listener) {
  listeners.push(listener);
}

export function start() {
  const tell = () => {
    if (location.hash === last) return;
    last = location.hash;
    for (const listener of listeners) listener(route());
  };
  addEventListener("hashchange", () => { last = null; tell(); });
  tell();
}
