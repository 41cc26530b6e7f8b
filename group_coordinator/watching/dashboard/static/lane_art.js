// How the swim-lanes are painted.

import { countsAt } from "dashboard/epochs";
import { clock, day, duration, partitionName, preciseClock } from "dashboard/format";
import { colour, css, inkOn, isStriped, stripes } from "dashboard/palette";

const RULER = 44;
const STRIP = 46;
const TOPIC = 20;
const FONT = "11px system-ui, sans-serif";
const MONO = "11px ui-monospace, SFMono-Regular, Menlo, monospace";
const TICKS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1.5e4, 3e4, 6e4, 1.2e5, 3e5, 6e5, 9e5, 1.8e6, 3.6e6, 7.2e6, 1.08e7, 2.16e7, 4.32e7, 8.64e7, 1.728e8, 6.048e8, 2.592e9];

/** Names that tell members apart: client ids or static ids without what they all begin with. */
export function shortNames(page) {
  const full = page.members.map((member) => member.instance ?? member.client ?? member.name);
  const distinct = [...new Set(full)];
  let common = 0;
  if (distinct.length > 1) {
    while (distinct.every((name) => name.length > common + 1 && name[common] === distinct[0][common])) common += 1;
    const cut = distinct[0].slice(0, common).search(/[-_.:/][^-_.:/]*$/);
    common = cut + 1;
  } else if (full.length > 1 && distinct.length === 1) {
    return page.members.map((member) => member.name);
  }
  return full.map((name) => name.slice(common));
}

export class LaneArt {
  constructor(lanes) {
    this.lanes = lanes;
    this.gutter = 130;
    this.width = 0;
    this.rows = [];
  }

  adopt(page) {
    this.names = shortNames(page);
    this.rows = [];
    let y = 0;
    let topic = null;
    const height = page.lanes.length > 40 ? 16 : page.lanes.length > 14 ? 20 : 24;
    for (const lane of page.lanes) {
      if (lane.topic !== topic) {
        this.rows.push({ y, height: TOPIC, topic: lane.topic });
        topic = lane.topic;
        y += TOPIC;
      }
      this.rows.push({ y, height, lane });
      y += height;
    }
    this.total = y + 4;
  }

  layout() {
    const { element, spacer, scroll, ruler, body, strip } = this.lanes;
    this.width = element.clientWidth;
    this.gutter = this.width < 560 ? 64 : 120;
    const most = Math.max(120, Math.min(460, innerHeight * 0.46));
    this.seen = Math.min(this.total, most);
    scroll.style.height = `${this.seen}px`;
    spacer.style.height = `${this.total}px`;
    this.#size(ruler, RULER);
    this.#size(body, this.seen);
    this.#size(strip, STRIP);
  }

  laneAt(y) {
    const at = y + this.lanes.scroll.scrollTop;
    return this.rows.find((row) => row.lane && row.y <= at && at < row.y + row.height)?.lane ?? null;
  }

  draw() {
    if (!this.width) return;
    this.ink = { text: css("--text"), muted: css("--muted"), line: css("--line"), bad: css("--gap"), badSoft: css("--gap-soft"), panel: css("--panel"), busy: css("--busy"), accent: css("--accent"), band: css("--band"), unknown: css("--calm-ground"), good: css("--good") };
    this.#ruler();
    this.#body();
    this.#strip();
  }

  #size(canvas, height) {
    const scale = devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(this.width * scale);
    canvas.height = Math.round(height * scale);
  }

  #paint(canvas) {
    const scale = devicePixelRatio || 1;
    const paint = canvas.getContext("2d");
    paint.setTransform(scale, 0, 0, scale, 0, 0);
    paint.clearRect(0, 0, canvas.width, canvas.height);
    paint.font = FONT;
    paint.textBaseline = "middle";
    return paint;
  }

  #ticks() {
    const { from, to } = this.lanes;
    const wanted = (to - from) / Math.max(2, (this.width - this.gutter) / 110);
    const step = TICKS.find((each) => each >= wanted) ?? 2.592e9;
    const times = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) times.push(at);
    return { step, times };
  }

  #ruler() {
    const paint = this.#paint(this.lanes.ruler);
    const { step, times } = this.#ticks();
    let last = null;
    paint.fillStyle = this.ink.muted;
    for (const at of times) {
      const x = this.lanes.xOf(at);
      const date = day(at);
      const text = step < 1000 ? preciseClock(at) : step >= 8.64e7 ? date : clock(at);
      paint.fillText(text, x + 4, 12);
      if (date !== last && step < 8.64e7) paint.fillText(date, x + 4, 26);
      last = date;
      paint.fillRect(x, 4, 1, 12);
    }
    this.#generations(paint);
    paint.fillStyle = this.ink.line;
    paint.fillRect(0, RULER - 1, this.width, 1);
    this.#cursor(paint, RULER, true);
  }

  /** Generation bands: numbers where there is room for them. */
  #generations(paint) {
    let right = this.gutter;
    for (const band of this.#bands()) {
      const from = Math.max(this.lanes.xOf(band.from), this.gutter);
      const to = Math.min(this.lanes.xOf(band.to), this.width);
      if (to <= this.gutter || from >= this.width) continue;
      paint.fillStyle = band.generation % 2 ? this.ink.band : "transparent";
      paint.fillRect(from, RULER - 14, to - from, 14);
      const text = to - from > 70 ? `${countsAt(this.lanes.page, band.from) === "epoch" ? "epoch" : "gen"} ${band.generation}` : String(band.generation);
      const width = paint.measureText(text).width;
      if (to - from > width + 4 && from >= right - 1) {
        paint.fillStyle = this.ink.muted;
        paint.fillText(text, from + 3, RULER - 7);
        right = from + width;
      }
    }
    paint.clearRect(0, RULER - 14, this.gutter, 14);
    paint.fillStyle = this.ink.muted;
    paint.fillText("UTC", 8, 12);
  }

  #bands() {
    const bands = [];
    for (const [from, state, generation] of this.lanes.page.states) {
      const last = bands[bands.length - 1];
      if (last && last.generation === generation && state !== "Dead") continue;
      if (last) last.to = from;
      bands.push({ generation, from, to: this.lanes.page.window.to });
    }
    return bands;
  }

  #body() {
    const paint = this.#paint(this.lanes.body);
    const top = this.lanes.scroll.scrollTop;
    this.#ground(paint);
    paint.save();
    paint.beginPath();
    paint.rect(this.gutter, 0, this.width - this.gutter, this.seen);
    paint.clip();
    for (const row of this.rows) {
      const y = row.y - top;
      if (row.lane && y + row.height >= 0 && y <= this.seen) this.#lane(paint, row, y);
    }
    paint.restore();
    this.#labels(paint, top);
    this.#cursor(paint, this.seen, false);
  }

  #ground(paint) {
    const { page } = this.lanes;
    for (const band of this.#bands()) {
      if (band.generation % 2 === 0) continue;
      const from = Math.max(this.lanes.xOf(band.from), this.gutter);
      const to = Math.min(this.lanes.xOf(band.to), this.width);
      if (to <= from) continue;
      paint.fillStyle = this.ink.band;
      paint.fillRect(from, 0, to - from, this.seen);
    }
    for (const at of this.#ticks().times) {
      const x = this.lanes.xOf(at);
      if (x < this.gutter) continue;
      paint.fillStyle = this.ink.line;
      paint.fillRect(x, 0, 1, this.seen);
    }
    const chosen = page.rebalances.find((rebalance) => rebalance.key === this.lanes.selected);
    if (chosen) {
      const from = Math.max(this.lanes.xOf(chosen.started), this.gutter);
      const to = Math.max(this.lanes.xOf(chosen.ended ?? page.window.to), from + 2);
      paint.fillStyle = this.ink.accent;
      paint.globalAlpha = 0.16;
      paint.fillRect(from, 0, to - from, this.seen);
      paint.globalAlpha = 1;
    }
  }

  #lane(paint, { lane, height }, y) {
    const { page } = this.lanes;
    const inset = height > 18 ? 3 : 2;
    const [top, tall] = [y + inset, height - 2 * inset];
    for (const [from, to, kind] of lane.gaps) this.#gap(paint, this.lanes.xOf(from), this.lanes.xOf(to ?? page.window.to), top, tall, kind);
    for (const [number, from, to] of lane.owned) {
      const left = this.lanes.xOf(from);
      const right = Math.max(this.lanes.xOf(to ?? page.window.to), left + 1);
      if (right < this.gutter || left > this.width) continue;
      const slot = page.members[number]?.slot ?? -1;
      const ground = colour(slot);
      paint.fillStyle = isStriped(slot) ? stripes(paint, ground, "rgba(0,0,0,.28)", "member") : ground;
      paint.fillRect(left, top, Math.max(right - left - 0.6, 0.8), tall);
      this.#silence(paint, page.members[number], to, right, top, tall);
      const start = Math.max(left, this.gutter);
      const room = Math.min(right, this.width) - start - 8;
      const text = this.names[number] ?? "";
      if (tall >= 11 && room > 14 && text) {
        paint.fillStyle = inkOn(ground);
        paint.fillText(this.#fit(paint, text, room), start + 4, y + height / 2 + 0.5);
      }
    }
  }

  /** The owner was no longer heard: it had the partition, and nobody worked on it. */
  #silence(paint, member, to, right, top, tall) {
    if (!member?.heard || to === null || to < member.heard || to !== member.ended) return;
    const left = this.lanes.xOf(member.heard);
    paint.fillStyle = this.ink.panel;
    paint.globalAlpha = 0.55;
    paint.fillRect(left, top, right - left, tall);
    paint.globalAlpha = 1;
    paint.fillStyle = this.ink.bad;
    paint.fillRect(left, top + tall / 2 - 0.75, right - left, 1.5);
  }

  #gap(paint, left, right, top, tall, kind) {
    if (right < this.gutter || left > this.width) return;
    const width = Math.max(right - left, 1.5);
    if (kind === "unowned") {
      paint.fillStyle = width < 4 ? this.ink.bad : stripes(paint, this.ink.badSoft, this.ink.bad, "gap");
      paint.fillRect(left, top, width, tall);
      paint.fillStyle = this.ink.bad;
      paint.fillRect(left, top, width, 1.5);
      paint.fillRect(left, top + tall - 1.5, width, 1.5);
    } else if (kind === "not_known") {
      paint.fillStyle = this.ink.unknown;
      paint.fillRect(left, top + tall / 4, width, tall / 2);
      paint.fillStyle = this.ink.muted;
      if (width > 12) paint.fillText("?", left + width / 2 - 3, top + tall / 2 + 1);
    } else {
      paint.fillStyle = stripes(paint, "", this.ink.line, "empty");
      paint.fillRect(left, top, width, tall);
    }
  }

  #fit(paint, text, room) {
    if (paint.measureText(text).width <= room) return text;
    let end = text.length;
    while (end > 1 && paint.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
    return end > 1 ? `${text.slice(0, end)}…` : "";
  }

  #labels(paint, top) {
    for (const row of this.rows) {
      const y = row.y - top;
      if (y + row.height < 0 || y > this.seen) continue;
      if (row.topic !== undefined) {
        paint.fillStyle = this.ink.panel;
        paint.fillRect(0, y, this.width, row.height);
        paint.fillStyle = this.ink.text;
        paint.font = `600 ${FONT}`;
        paint.fillText(this.#fit(paint, row.topic, this.width - 20), 8, y + row.height / 2 + 1);
        paint.font = FONT;
      } else {
        paint.fillStyle = this.ink.muted;
        paint.font = MONO;
        paint.textAlign = "right";
        paint.fillText(partitionName(row.lane.partition), this.gutter - 8, y + row.height / 2 + 0.5);
        paint.textAlign = "left";
        paint.font = FONT;
      }
    }
  }

  #strip() {
    const paint = this.#paint(this.lanes.strip);
    const { page } = this.lanes;
    const base = STRIP - 14;
    paint.fillStyle = this.ink.line;
    paint.fillRect(0, 0, this.width, 1);
    paint.fillRect(this.gutter, base, this.width - this.gutter, 1);
    paint.fillStyle = this.ink.muted;
    if (this.gutter > 80) paint.fillText("Rebalances", 8, 20);
    const longest = Math.max(1000, ...page.rebalances.map((rebalance) => rebalance.duration_ms ?? page.now - rebalance.started_ms));
    paint.save();
    paint.beginPath();
    paint.rect(this.gutter, 0, this.width - this.gutter, STRIP);
    paint.clip();
    let labelled = -100;
    for (const rebalance of page.rebalances) {
      const left = this.lanes.xOf(rebalance.started_ms);
      const right = Math.max(this.lanes.xOf(rebalance.ended_ms ?? page.window.to), left + 3);
      if (right < this.gutter || left > this.width) continue;
      const tall = 6 + 18 * Math.sqrt((rebalance.duration_ms ?? page.now - rebalance.started_ms) / longest);
      const chosen = rebalance.key === this.lanes.selected;
      const bad = ["member_expired", "members_did_not_sync", "assignment_too_large"].includes(rebalance.trigger) || rebalance.dropped.length > 0;
      paint.fillStyle = chosen ? this.ink.accent : bad ? this.ink.bad : this.ink.busy;
      paint.fillRect(left, base - tall, right - left, tall);
      if (rebalance.outcome === "interrupted") {
        paint.fillStyle = this.ink.panel;
        paint.fillRect(left, base - tall / 2, right - left, 1.5);
      }
      if (left - labelled > 52) {
        paint.fillStyle = chosen ? this.ink.accent : this.ink.muted;
        paint.fillText(rebalance.duration_ms === null ? "not over" : duration(rebalance.duration_ms), left, base + 8);
        labelled = left;
      }
    }
    this.#cursor(paint, STRIP, false);
    paint.restore();
  }

  #cursor(paint, height, withGrip) {
    const at = this.lanes.at;
    const x = at === null ? null : this.lanes.xOf(at);
    if (x === null || x < this.gutter || x > this.width) return;
    paint.fillStyle = this.ink.accent;
    paint.fillRect(x - 0.75, withGrip ? 10 : 0, 1.5, height);
    if (!withGrip) return;
    const text = preciseClock(at);
    const width = paint.measureText(text).width + 10;
    const left = Math.min(Math.max(x - width / 2, this.gutter), this.width - width);
    paint.beginPath();
    paint.roundRect(left, 2, width, 18, 4);
    paint.fill();
    paint.fillStyle = css("--on-accent");
    paint.fillText(text, left + 5, 11.5);
  }
}
