// Verdicts and states as marks: a sign and a word, never a colour alone.

import { h } from "dashboard/dom";

export const VERDICTS = {
  stuck: { sign: "■", word: "stuck", tone: "bad" },
  losing: { sign: "▽", word: "losing", tone: "bad" },
  stalled: { sign: "‖", word: "stalled", tone: "bad" },
  flapping: { sign: "⇅", word: "flapping", tone: "bad" },
  storming: { sign: "≋", word: "storming", tone: "bad" },
  skipped: { sign: "»", word: "skipped", tone: "warn" },
  rewound: { sign: "«", word: "rewound", tone: "warn" },
  uneven: { sign: "◣", word: "uneven", tone: "warn" },
  expiring: { sign: "⧗", word: "offsets expire", tone: "warn" },
  empty_with_lag: { sign: "◌", word: "empty, lag", tone: "warn" },
  deploying: { sign: "⟳", word: "deploying", tone: "busy" },
  rebalancing: { sign: "↻", word: "rebalancing", tone: "busy" },
  stable: { sign: "●", word: "stable", tone: "good" },
  empty: { sign: "○", word: "empty", tone: "calm" },
  unknown: { sign: "?", word: "not known", tone: "calm" },
  dead: { sign: "×", word: "gone", tone: "calm" },
};
export const ORDER = Object.keys(VERDICTS);

export function verdict(kind) {
  const { sign, word, tone } = VERDICTS[kind] ?? { sign: "?", word: kind, tone: "calm" };
  return h("span", { class: `mark ${tone}` }, h("span", { "aria-hidden": "true" }, sign), " ", word);
}

const STATES = {
  Stable: "good", PreparingRebalance: "busy", CompletingRebalance: "busy", Assigning: "busy", Reconciling: "busy",
  Empty: "calm", Dead: "calm", none: "calm", unknown: "calm",
};
const STATE_WORDS = { PreparingRebalance: "Preparing", CompletingRebalance: "Completing", none: "no group", unknown: "not known" };

export function state(name) {
  return h("span", { class: `state ${STATES[name] ?? "calm"}`, title: name }, STATE_WORDS[name] ?? name);
}

export const TRIGGERS = {
  member_joined: "joined",
  leader_rejoined: "leader rejoined",
  member_changed: "changed",
  static_member_replaced: "static, replaced",
  member_left: "left",
  pending_member_left: "pending left",
  member_expired: "expired",
  members_did_not_sync: "did not sync",
  assignment_too_large: "too large",
  subscription_changed: "subscription",
  topics_changed: "topics",
  regexes_resolved: "pattern resolved",
  group_converted: "converted",
  member_dropped: "too slow",
  not_known: "not known",
};
const TRIGGER_TONES = { member_expired: "bad", members_did_not_sync: "bad", member_dropped: "bad", assignment_too_large: "bad", member_left: "warn", pending_member_left: "warn" };

export function trigger(name) {
  return h("span", { class: `tag ${TRIGGER_TONES[name] ?? ""}` }, TRIGGERS[name] ?? name);
}

export const ENDS = {
  rejoined: "given up to rejoin", revoked: "revoked", left: "owner left", expired: "owner expired", dropped: "owner dropped",
  replaced: "owner replaced", group_empty: "group empty", unknown: "unknown",
};
