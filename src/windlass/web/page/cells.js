// Cells: how a node is drawn. Colour tells how much of it is asked for; the shape tells its state, without any colour.

export const STATES = {
  ready: "ready",
  unneeded: "unneeded",
  draining: "draining",
  booting: "booting",
  unready: "not ready",
  failed: "failed",
};

/** The palette of the page as it is now; read again when light turns dark. */
export function readInk() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  const stops = [0, 1, 2, 3, 4].map((step) => parse(read(`--ramp-${step}`)));
  return {
    ramp: Array.from({ length: 101 }, (_, percent) => blend(stops, percent / 100)),
    text: read("--text"), surface: read("--surface"), line: read("--cell-line"), accent: read("--accent"),
    leaving: read("--leaving"), trouble: read("--bad"), coming: read("--coming"),
  };
}

const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function blend(stops, share) {
  const at = share * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2), rest = at - low;
  return `rgb(${stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * rest)).join(" ")})`;
}

/** How much of a node is asked for, by what the user wants to see; null where it has none of that. */
function used(node, by) {
  if (by === "gpu") return node.gpu;
  if (by === "cpu" || by === "memory") return node[by];
  return node.gpu ?? Math.max(node.cpu, node.memory);
}

const ORDER = Object.keys(STATES), NONE = 101, PERCENTS = 102;

/** All that can be seen of a node, as one number: nodes of the same number look the same. */
export function look(node, by, isFaint) {
  const share = used(node, by), percent = share === null ? NONE : Math.min(Math.max(Math.round(share * 100), 0), 100);
  return ((ORDER.indexOf(node.state) * PERCENTS + percent) * 2 + (node.cordoned ? 1 : 0)) * 2 + (isFaint ? 1 : 0);
}

/** Draw a node of this look into the square of this size at 0, 0. */
export function draw(context, ink, number, size) {
  const isFaint = number & 1, isCordoned = number & 2, rest = number >> 2;
  const state = ORDER[Math.floor(rest / PERCENTS)], percent = rest % PERCENTS;
  const x = 0, y = 0, fill = percent === NONE ? ink.surface : ink.ramp[percent];
  const inner = Math.max(size - 1, 2), line = size < 8 ? fill : ink.line; // of a small cell the line would be most
  context.globalAlpha = isFaint ? 0.15 : 1;
  context.lineWidth = 1;
  switch (state) {
    case "booting":
      box(context, x, y, inner, null, ink.coming, size >= 9 ? [2, 2] : []);
      break;
    case "failed":
      box(context, x, y, inner, ink.surface, ink.trouble);
      cross(context, x, y, inner, ink.trouble, size);
      break;
    case "unready":
      box(context, x, y, inner, fill, ink.trouble);
      mark(context, x, y, inner, ink.trouble, ink.surface, size);
      break;
    case "draining":
      box(context, x, y, inner, ink.surface, ink.leaving);
      wedge(context, x, y, inner, ink.leaving);
      break;
    case "unneeded":
      box(context, x, y, inner, fill, line);
      corner(context, x, y, inner, ink.surface, ink.text);
      break;
    default:
      box(context, x, y, inner, fill, line);
  }
  if (isCordoned && state !== "draining") {
    context.fillStyle = ink.text;
    context.fillRect(x, y + inner - Math.max(size / 8, 1), inner, Math.max(size / 8, 1));
  }
}

function box(context, x, y, size, fill, line, dash = []) {
  if (fill) { context.fillStyle = fill; context.fillRect(x, y, size, size); }
  context.strokeStyle = line;
  context.setLineDash(dash);
  context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  if (dash.length) context.setLineDash([]);
}

function path(context, points) {
  context.beginPath();
  points.forEach(([x, y], at) => at ? context.lineTo(x, y) : context.moveTo(x, y));
}

/** An arrow that points down: it leaves. */
function wedge(context, x, y, size, colour) {
  const rim = size * 0.24;
  path(context, [[x + rim, y + rim], [x + size - rim, y + rim], [x + size / 2, y + size - rim]]);
  context.fillStyle = colour;
  context.fill();
}

/** The upper right corner is cut off: it is spare. */
function corner(context, x, y, size, paper, line) {
  const cut = size * 0.55;
  path(context, [[x + size - cut, y], [x + size, y], [x + size, y + cut]]);
  context.fillStyle = paper;
  context.fill();
  path(context, [[x + size - cut, y], [x + size, y + cut]]);
  context.strokeStyle = line;
  context.stroke();
}

function cross(context, x, y, size, colour, whole) {
  const rim = size * 0.26;
  context.strokeStyle = colour;
  context.lineWidth = whole >= 12 ? 2 : 1.2;
  path(context, [[x + rim, y + rim], [x + size - rim, y + size - rim]]);
  context.stroke();
  path(context, [[x + size - rim, y + rim], [x + rim, y + size - rim]]);
  context.stroke();
}

/** An exclamation mark, or as much of it as there is room for. */
function mark(context, x, y, size, colour, paper, whole) {
  const wide = Math.max(Math.round(size / 5), 1), middle = x + size / 2 - wide / 2;
  context.fillStyle = paper;
  context.fillRect(middle - wide * 0.8, y + 1.5, wide * 2.6, size - 3);
  context.fillStyle = colour;
  context.fillRect(middle, y + size * 0.2, wide, size * (whole >= 9 ? 0.34 : 0.6));
  if (whole >= 9) context.fillRect(middle, y + size * 0.66, wide, Math.max(wide, size * 0.14));
}
