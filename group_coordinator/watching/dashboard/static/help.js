// The keys.

import { h } from "dashboard/dom";

const KEYS = [
  ["/", "search"],
  ["g  e", "groups, events"],
  ["j  k  ↑  ↓", "up and down a list; Enter opens"],
  ["←  →", "in a group: the rebalance before, the next one"],
  ["[  ]", "move the moment by a hundredth of what is seen"],
  ["+  −  0", "zoom in, out, all"],
  ["Esc", "back to the present"],
  ["d", "dark or light"],
  ["?", "this"],
];

export function showHelp() {
  const dialog = h("dialog", { "aria-labelledby": "help-title", onclose: () => dialog.remove(), onclick: (event) => { if (event.target === dialog) dialog.close(); } },
    h("h2", { id: "help-title" }, "Keys"),
    h("dl", { class: "keys" }, KEYS.map(([keys, what]) => [h("dt", {}, keys.split("  ").map((key) => h("kbd", {}, key))), h("dd", {}, what)])),
    h("p", { class: "note" }, "In the swim-lanes: drag to move, wheel with Ctrl to zoom, drag along the ruler for another moment. Times are UTC. The address always leads back to what you see. Where a responder answers, clients have their answers a batch of Spark earlier than this page, two or three seconds."),
    h("form", { method: "dialog" }, h("button", { type: "submit" }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}
