// Colours of members: distinguishable with any colour vision; red is kept for time without owner. When the hues are
// used up they come again with stripes.

const LIGHT = ["#5b8fd6", "#e0b93f", "#3fae91", "#b275c0", "#7fcbe8", "#a0843c", "#8a93a3", "#e79cc0", "#4a6f3f", "#6d6ad0"];
const DARK = ["#6c9ee0", "#d9b648", "#49b79b", "#b982c8", "#6fbcd9", "#a98f4d", "#8f99a8", "#d98fb4", "#6f9a60", "#8a87e6"];

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function colour(slot) {
  const colours = isDark() ? DARK : LIGHT;
  return slot < 0 ? (isDark() ? "#444b55" : "#c4c9d0") : colours[slot % colours.length];
}

export function isStriped(slot) {
  return slot >= LIGHT.length;
}

/** Dark or white text, whichever can be read on it. */
export function inkOn(hex) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue > 125 ? "#10151c" : "#ffffff";
}

export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const patterns = new Map();

/** A canvas pattern of stripes over a ground. */
export function stripes(context, ground, line, key) {
  const name = `${key}${ground}${line}`;
  if (!patterns.has(name)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const paint = tile.getContext("2d");
    if (ground) {
      paint.fillStyle = ground;
      paint.fillRect(0, 0, 8, 8);
    }
    paint.strokeStyle = line;
    paint.lineWidth = 2;
    paint.beginPath();
    for (const at of [-4, 0, 4, 8, 12]) if (at % 8 === 0) { paint.moveTo(at - 4, 12); paint.lineTo(at + 12, -4); }
    paint.stroke();
    patterns.set(name, context.createPattern(tile, "repeat"));
  }
  return patterns.get(name);
}
