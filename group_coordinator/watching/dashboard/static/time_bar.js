// The bar at the bottom of the list: drag it to any moment.

import { h, replace } from "dashboard/dom";
import { moment } from "dashboard/format";
import { css } from "dashboard/palette";

const STEPS = 2000;

export class TimeBar {
  constructor({ first, last, onTime }) {
    this.onTime = onTime;
    this.first = first ?? last;
    this.last = last;
    this.at = null;
    this.marks = [];
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.range = h("input", { type: "range", min: 0, max: STEPS, value: STEPS, "aria-label": "Moment shown", oninput: () => this.slid() });
    this.words = h("span", { class: "when" });
    this.back = h("button", { type: "button", onclick: () => this.move(null) }, "Back to the present");
    this.element = h("section", { class: "timebar", "aria-label": "Time travel" }, h("div", { class: "track" }, this.canvas, this.range), this.words, this.back);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.canvas);
  }

  /** When rebalances began, and until when there is time. */
  setMarks(marks, last) {
    this.marks = marks;
    this.last = Math.max(last, this.last);
    this.set(this.at);
  }

  slid() {
    const part = Number(this.range.value) / STEPS;
    this.move(part >= 1 ? null : Math.round(this.first + part * (this.last - this.first)));
  }

  move(at) {
    this.set(at);
    this.onTime(at);
  }

  set(at) {
    this.at = at;
    const span = this.last - this.first;
    const part = at === null || span <= 0 ? 1 : (at - this.first) / span;
    this.range.value = Math.round(Math.max(0, Math.min(1, part)) * STEPS);
    const text = at === null ? "the present" : `${moment(at)} UTC`;
    this.range.setAttribute("aria-valuetext", text);
    this.back.hidden = at === null;
    replace(this.words, at === null ? "Drag to any moment" : text);
    this.element.classList.toggle("past", at !== null);
    this.draw();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || this.last <= this.first) return;
    const scale = devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const paint = this.canvas.getContext("2d");
    paint.scale(scale, scale);
    const bins = new Array(Math.max(1, Math.floor(width / 3))).fill(0);
    for (const mark of this.marks) {
      const bin = Math.floor(((mark - this.first) / (this.last - this.first)) * bins.length);
      if (bin >= 0 && bin < bins.length) bins[bin] += 1;
    }
    const most = Math.max(2, ...bins);
    paint.fillStyle = css("--mark");
    bins.forEach((each, number) => {
      if (each) paint.fillRect(number * 3, height - Math.max(3, (each / most) * height), 2, Math.max(3, (each / most) * height));
    });
  }

  close() {
    this.resized.disconnect();
  }
}
