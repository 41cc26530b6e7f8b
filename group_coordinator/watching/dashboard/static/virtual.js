// A long list of which only what is seen exists. Rows have one height.

import { h, replace } from "dashboard/dom";

const SPARE = 6;

export class VirtualList {
  /** `row(item, number)` makes an element; `label` says what the list is. */
  constructor({ label, rowHeight, row, columns }) {
    this.row = row;
    this.rowHeight = rowHeight;
    this.items = [];
    this.selected = -1;
    this.body = h("div", { class: "rows", role: "rowgroup" });
    this.head = h("div", { class: "row head", role: "row" }, columns);
    this.table = h("div", { class: "table", role: "table", "aria-label": label }, h("div", { role: "rowgroup", class: "headgroup" }, this.head), this.body);
    this.element = h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": label, onscroll: () => this.draw(), onkeydown: (event) => this.key(event) }, this.table);
    this.resized = new ResizeObserver(() => this.draw(true));
    this.resized.observe(this.element);
  }

  show(items) {
    this.items = items;
    this.table.setAttribute("aria-rowcount", items.length + 1);
    this.draw(true);
  }

  get height() {
    return this.rowHeight();
  }

  draw(anew = false) {
    const height = this.height;
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - SPARE);
    const last = Math.min(this.items.length, Math.ceil((this.element.scrollTop + (this.element.clientHeight || 600)) / height) + SPARE);
    if (!anew && first === this.first && last === this.last) return;
    this.first = first;
    this.last = last;
    const hadFocus = this.body.contains(document.activeElement);
    this.body.style.height = `${this.items.length * height}px`;
    const rows = [];
    for (let number = first; number < last; number++) {
      const element = this.row(this.items[number], number);
      element.style.transform = `translateY(${number * height}px)`;
      element.style.height = `${height}px`;
      element.setAttribute("aria-rowindex", number + 2);
      if (number === this.selected) element.classList.add("selected");
      rows.push(element);
    }
    replace(this.body, rows);
    if (hadFocus) this.element.focus({ preventScroll: true });
  }

  select(number) {
    this.selected = Math.max(0, Math.min(number, this.items.length - 1));
    const top = this.selected * this.height;
    const { scrollTop, clientHeight } = this.element;
    const head = this.head.offsetHeight;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.height > scrollTop + clientHeight - head) this.element.scrollTop = top + this.height - clientHeight + head;
    this.draw(true);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 2);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
    if (event.target !== this.element || event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.key in steps) {
      event.preventDefault();
      this.select(this.selected + steps[event.key]);
    } else if (event.key === "Enter" && this.items[this.selected]) {
      this.body.querySelector(".selected a")?.click();
    }
  }

  close() {
    this.resized.disconnect();
  }
}
