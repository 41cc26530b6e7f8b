// Times are milliseconds since 1970 and shown in UTC, as in logs.

const two = (number) => String(number).padStart(2, "0");

/** 02:14:07 */
export function clock(ms) {
  const date = new Date(ms);
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
}

/** 02:14:07.250 */
export function preciseClock(ms) {
  return `${clock(ms)}.${String(((ms % 1000) + 1000) % 1000).padStart(3, "0")}`;
}

/** 2026-11-21 */
export function day(ms) {
  return new Date(ms).toISOString().slice(0, 10);
}

export function moment(ms) {
  return `${day(ms)} ${clock(ms)}`;
}

/** 850 ms, 10.2 s, 2 min 5 s, 3 h 10 min, 8 d 2 h */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const sign = ms < 0 ? "-" : "";
  const size = Math.abs(ms);
  const seconds = Math.floor(size / 1000);
  if (seconds < 1) return `${sign}${Math.round(size)} ms`;
  if (seconds < 60) return `${sign}${Math.floor(size / 100) / 10} s`;
  const pair = (large, unit, small, smallUnit) => `${sign}${large} ${unit}${small ? ` ${small} ${smallUnit}` : ""}`;
  if (seconds < 3600) return pair(Math.floor(seconds / 60), "min", seconds % 60, "s");
  if (seconds < 86400) return pair(Math.floor(seconds / 3600), "h", Math.floor((seconds % 3600) / 60), "min");
  return pair(Math.floor(seconds / 86400), "d", Math.floor((seconds % 86400) / 3600), "h");
}

/** One unit only: 3 s, 12 min, 5 h, 8 d */
export function roughly(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function ago(ms, now) {
  return ms === null || ms === undefined ? "–" : `${roughly(now - ms)} ago`;
}

/** A partition; of Kafka Connect a task, or the connector itself. */
export function partitionName(partition) {
  return partition < 0 ? "connector" : String(partition);
}

/** 0-2, 5 */
export function ranges(partitions) {
  const runs = [];
  for (const partition of [...partitions].sort((a, b) => a - b)) {
    if (partition > 0 && runs.at(-1)?.[1] === partition - 1) runs.at(-1)[1] = partition;
    else runs.push([partition, partition]);
  }
  return runs.map(([first, last]) => (first === last ? partitionName(first) : `${first}-${last}`)).join(", ");
}

/** 12,345 */
export function number(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US");
}

/** 950, 12.3k, 4.1M */
export function short(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(value) >= size) return `${Math.floor(value / (unit === "k" ? 100 : size / 10)) / 10}${unit}`;
  }
  return number(value);
}

export function count(value, thing) {
  return `${number(value)} ${thing}${value === 1 ? "" : "s"}`;
}

export function bytes(value) {
  return value > 1048576 ? `${(value / 1048576).toFixed(1)} MiB` : `${Math.ceil(value / 1024)} KiB`;
}

/** A host as people write it: Kafka puts a slash before it. */
export function host(text) {
  return (text ?? "").replace(/^\//, "");
}
