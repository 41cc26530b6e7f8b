// Swim-lanes: a lane for each partition, a colour for each member, red hatching where nobody owned it. Beneath them the
// rebalances. Drag to move, wheel with Ctrl to zoom, drag the ruler (or use its arrow keys) for another moment.

import { countsAt } from "dashboard/epochs";
import { h, replace } from "dashboard/dom";
import { clock, duration, moment, partitionName, preciseClock } from "dashboard/format";
import { LaneArt } from "dashboard/lane_art";
import { ENDS } from "dashboard/verdicts";

const NEAR_PX = 7;
const MIN_SPAN_MS = 200;

const GAPS = { unowned: "no owner", empty: "no owner: the group was empty", not_known: "owner not known: a member gives up its partitions when it rejoins, and no source says when that was; or no record has what was assigned" };

export class Lanes {
  /** `page` is a group's document; `onRange`, `onMoment` and `onRebalance` hear what the user does. */
  constructor(page, { onRange = () => {}, onMoment = () => {}, onRebalance = () => {}, label = "Ownership over time" } = {}) {
    this.page = page;
    this.handlers = { onRange, onMoment, onRebalance };
    this.at = null;
    this.selected = null;
    this.ruler = h("canvas", { class: "ruler", tabindex: "0", role: "slider", "aria-label": "Moment", "aria-valuemin": page.window.from, "aria-valuemax": page.window.to });
    this.body = h("canvas", { class: "body", role: "img" });
    this.strip = h("canvas", { class: "strip", role: "img", "aria-label": "Rebalances; the table beneath has each of them" });
    this.spacer = h("div", { class: "spacer" });
    this.scroll = h("div", { class: "lanescroll", tabindex: "0", role: "region", "aria-label": label, onscroll: () => this.draw() }, this.spacer, this.body);
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h("div", { class: "lanes" }, this.ruler, this.scroll, this.strip, this.tip);
    this.art = new LaneArt(this);
    this.fitAll();
    this.adopt(page);
    this.#listen();
    this.setMoment(null);
  }

  /** Another version of the same group's document; what is seen stays. */
  adopt(page) {
    const followed = this.page && this.to >= this.page.window.to;
    this.page = page;
    if (followed) this.to = page.window.to;
    this.body.setAttribute("aria-label", this.#inWords());
    this.art.adopt(page);
    this.layout();
  }

  fitAll() {
    const { from, to } = this.page.window;
    const margin = Math.max((to - from) * 0.01, 500);
    this.from = from - margin;
    this.to = to + margin;
  }

  /** What an engineer wants first: the latest trouble, not years of silence. */
  fitRecent() {
    const { rebalances, window } = this.page;
    this.fitAll();
    const some = rebalances.slice(-12);
    if (window.to - window.from < 7_200_000 || some.length === 0) return;
    const start = some[0].started_ms;
    const end = some[some.length - 1].ended_ms ?? window.to;
    const span = Math.max(end - start, 60_000);
    this.from = start - span * 0.1;
    this.to = Math.min(window.to + span * 0.02, end + span * 0.35);
  }

  show(from, to) {
    const span = Math.max(to - from, MIN_SPAN_MS);
    this.from = from;
    this.to = from + span;
    this.handlers.onRange(Math.round(this.from), Math.round(this.to));
    this.draw();
  }

  zoom(factor, x = null) {
    const middle = x === null ? (this.at ?? (this.from + this.to) / 2) : this.timeAt(x);
    const whole = this.page.window.to - this.page.window.from;
    const span = Math.min(Math.max((this.to - this.from) * factor, MIN_SPAN_MS), Math.max(whole * 1.5, 10_000));
    const part = (middle - this.from) / (this.to - this.from);
    this.show(middle - span * part, middle + span * (1 - part));
  }

  setMoment(at) {
    this.at = at;
    this.ruler.setAttribute("aria-valuenow", Math.round(at ?? this.page.now));
    this.ruler.setAttribute("aria-valuetext", at === null ? "the present" : `${moment(at)} UTC`);
    if (at !== null && (at < this.from || at > this.to)) {
      const span = this.to - this.from;
      this.show(at - span / 2, at + span / 2);
    }
    this.draw();
  }

  select(rebalance) {
    this.selected = rebalance?.key ?? null;
    if (rebalance) {
      const end = rebalance.ended_ms ?? this.page.window.to;
      if (end < this.from || rebalance.started_ms > this.to) {
        const span = this.to - this.from;
        this.show(rebalance.started_ms - span / 2, rebalance.started_ms + span / 2);
      }
    }
    this.draw();
  }

  xOf(time) {
    return this.art.gutter + ((time - this.from) / (this.to - this.from)) * (this.art.width - this.art.gutter);
  }

  timeAt(x) {
    return this.from + ((x - this.art.gutter) / (this.art.width - this.art.gutter)) * (this.to - this.from);
  }

  layout() {
    this.art.layout();
    this.draw();
  }

  draw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = null;
      this.art.draw();
    });
  }

  restyle() {
    this.draw();
  }

  close() {
    this.resized.disconnect();
  }

  #inWords() {
    const { lanes, members, rebalances, window } = this.page;
    const gaps = lanes.reduce((sum, lane) => sum + lane.gaps.filter((gap) => gap[2] === "unowned").length, 0);
    return `${lanes.length} partitions, ${members.length} lives of members and ${rebalances.length} rebalances from ${moment(window.from)} to ${moment(window.to)} UTC; ${gaps} times a partition had no owner while the group had members.`;
  }

  // -------------------------------------------------------------------------------------------------- what the user does

  #listen() {
    this.resized = new ResizeObserver(() => this.layout());
    this.resized.observe(this.element);
    this.#dragged(this.ruler, (x) => this.#pickMoment(x));
    this.ruler.addEventListener("keydown", (event) => this.#rulerKey(event));
    this.#pan(this.body);
    this.#pan(this.strip);
    for (const canvas of [this.body, this.strip, this.ruler]) {
      canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
      canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    }
    this.body.addEventListener("pointermove", (event) => this.#hover(event));
    this.strip.addEventListener("pointermove", (event) => this.#hoverStrip(event));
  }

  #pickMoment(x) {
    const at = Math.round(Math.min(Math.max(this.timeAt(Math.max(x, this.art.gutter)), this.page.window.from), this.page.window.to));
    this.setMoment(at);
    this.handlers.onMoment(at);
  }

  #rulerKey(event) {
    const steps = { ArrowLeft: -0.01, ArrowRight: 0.01, PageUp: -0.1, PageDown: 0.1, ArrowDown: -0.01, ArrowUp: 0.01 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    this.step(steps[event.key]);
  }

  /** Moves the moment by a part of what is seen. */
  step(part) {
    const at = (this.at ?? Math.min(this.to, this.page.window.to)) + (this.to - this.from) * part;
    this.#pickMoment(this.xOf(Math.min(Math.max(at, this.page.window.from), this.page.window.to)));
  }

  #dragged(canvas, act) {
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      act(event.offsetX);
    });
    canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) act(event.offsetX); });
  }

  #pan(canvas) {
    let start = null;
    canvas.addEventListener("pointerdown", (event) => {
      start = { x: event.offsetX, y: event.clientY, from: this.from, to: this.to, top: this.scroll.scrollTop, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!start || !(event.buttons & 1)) return;
      const delta = event.offsetX - start.x;
      if (Math.abs(delta) > 3 || Math.abs(event.clientY - start.y) > 3) start.moved = true;
      if (!start.moved) return;
      const shift = (-delta / (this.art.width - this.art.gutter)) * (start.to - start.from);
      this.scroll.scrollTop = start.top - (event.clientY - start.y);
      this.show(start.from + shift, start.to + shift);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (start && !start.moved) this.#clicked(canvas, event);
      start = null;
    });
  }

  #clicked(canvas, event) {
    const rebalance = this.#rebalanceAt(event.offsetX, canvas === this.strip ? NEAR_PX : 2);
    if (rebalance) this.handlers.onRebalance(rebalance);
    else if (event.offsetX > this.art.gutter) this.#pickMoment(event.offsetX);
  }

  #rebalanceAt(x, near) {
    let best = null;
    for (const rebalance of this.page.rebalances) {
      const left = this.xOf(rebalance.started_ms);
      const right = Math.max(this.xOf(rebalance.ended_ms ?? this.page.window.to), left + 3);
      const distance = x < left ? left - x : x > right ? x - right : 0;
      if (distance <= near && (!best || distance < best.distance)) best = { distance, rebalance };
    }
    return best?.rebalance ?? null;
  }

  #wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY * 0.004), event.offsetX);
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      const delta = event.deltaX || event.deltaY;
      const shift = (delta / (this.art.width - this.art.gutter)) * (this.to - this.from);
      this.show(this.from + shift, this.to + shift);
    }
  }

  #hover(event) {
    if (event.buttons) return;
    const lane = this.art.laneAt(event.offsetY);
    if (!lane || event.offsetX < this.art.gutter) {
      this.tip.hidden = true;
      return;
    }
    const at = this.timeAt(event.offsetX);
    this.#tell(event, this.#laneTip(lane, at));
  }

  #laneTip(lane, at) {
    const title = h("strong", {}, `${lane.topic}-${partitionName(lane.partition)}`);
    const owned = lane.owned.find(([, from, to]) => from <= at && at < (to ?? Infinity));
    if (owned) {
      const [number, from, to, generation, end] = owned;
      const member = this.page.members[number];
      return [title, h("span", {}, `owned by ${member?.name ?? "a member that the window does not have"}`),
        h("span", {}, `${preciseClock(from)} to ${to === null ? "now" : preciseClock(to)}, ${duration((to ?? this.page.now) - from)}; since ${countsAt(this.page, from)} ${generation}`),
        member?.heard && at >= member.heard && to === member.ended ? h("span", { class: "alarmed" }, `it was last heard at ${preciseClock(member.heard)}: nobody worked on it since`) : null,
        end ? h("span", {}, `ended: ${ENDS[end] ?? end}`) : null];
    }
    const gap = lane.gaps.find(([from, to]) => from <= at && at < (to ?? Infinity));
    if (gap) {
      const [from, to, kind] = gap;
      return [title, h("span", { class: kind === "unowned" ? "alarmed" : "" }, GAPS[kind]), h("span", {}, `${preciseClock(from)} to ${to === null ? "now" : preciseClock(to)}, ${duration((to ?? this.page.now) - from)}`)];
    }
    return [title, h("span", {}, `${clock(at)}: not assigned to this group`)];
  }

  #hoverStrip(event) {
    if (event.buttons) return;
    const rebalance = this.#rebalanceAt(event.offsetX, NEAR_PX);
    this.strip.style.cursor = rebalance ? "pointer" : "grab";
    if (!rebalance) {
      this.tip.hidden = true;
      return;
    }
    this.#tell(event, [h("strong", {}, `Rebalance to ${rebalance.counts} ${rebalance.generation}`), h("span", {}, rebalance.cause), h("span", {}, `${preciseClock(rebalance.started_ms)}, ${rebalance.duration_ms === null ? "not over" : rebalance.is_begin_known ? `took ${duration(rebalance.duration_ms)}` : "its beginning is not known"}`)]);
  }

  #tell(event, content) {
    replace(this.tip, content);
    this.tip.hidden = false;
    const box = this.element.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    this.tip.style.left = `${Math.min(Math.max(0, x + 14), Math.max(0, box.width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${y + 18 + this.tip.offsetHeight > box.height + 40 ? y - this.tip.offsetHeight - 10 : y + 18}px`;
  }
}
