// A field: the cells of many nodes on one canvas. Only cells that look otherwise than before are put there anew.

import * as cells from "./cells.js";

const EMPTY = -1;

/** Cells of one size and palette, drawn once for each look and copied from then on. */
export class Stamps {
  constructor(ink, size, ratio) {
    [this.ink, this.size, this.ratio, this.made] = [ink, size, ratio, new Map()];
    this.side = Math.ceil(size * ratio);
    const canvas = new OffscreenCanvas(this.side, this.side);
    this.context = canvas.getContext("2d", { willReadFrequently: true });
  }

  get(look) {
    const known = this.made.get(look);
    if (known) return known;
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.context.clearRect(0, 0, this.size + 1, this.size + 1);
    if (look !== EMPTY) cells.draw(this.context, this.ink, look, this.size);
    const image = this.context.getImageData(0, 0, this.side, this.side);
    const made = { image, pixels: new Uint32Array(image.data.buffer) };
    this.made.set(look, made);
    return made;
  }
}

export class Field {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.looks = new Int16Array(0);
    this.columns = 1;
  }

  /** Cells as the stamps are, in rows of this width. */
  show(looks, stamps, wide) {
    const step = stamps.size + 1, columns = Math.max(Math.floor((wide + 1) / step), 1);
    const high = Math.max(Math.ceil(looks.length / columns) * step - 1, 0);
    const isAnew = this.stamps !== stamps || this.wide !== wide || this.high !== high;
    const before = this.looks;
    [this.stamps, this.columns, this.looks] = [stamps, columns, looks];
    if (isAnew) this.#resize(wide, high);
    if (!looks.length) return;
    const other = isAnew ? null : differing(before, looks);
    if (other && other.length < 64 + looks.length / 16) for (const at of other) this.#put(at);
    else this.#putAll();
  }

  /** Where a cell is, in CSS pixels. */
  place(at) {
    const step = this.stamps.size + 1;
    return [(at % this.columns) * step, Math.floor(at / this.columns) * step];
  }

  /** The number of the cell at x, y; -1 where there is none. */
  find(x, y) {
    const step = this.stamps.size + 1, column = Math.floor(x / step), row = Math.floor(y / step);
    const at = row * this.columns + column;
    return column >= 0 && column < this.columns && at >= 0 && at < this.looks.length ? at : -1;
  }

  #resize(wide, high) {
    [this.wide, this.high] = [wide, high];
    this.canvas.width = Math.round(wide * this.stamps.ratio);
    this.canvas.height = Math.round(high * this.stamps.ratio);
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${high}px`;
  }

  #pixel(at) { return this.place(at).map((one) => Math.round(one * this.stamps.ratio)); }

  #put(at) {
    this.context.putImageData(this.stamps.get(this.looks[at] ?? EMPTY).image, ...this.#pixel(at));
  }

  /** All at once: rows of pixels are copied, which is far quicker than drawing. */
  #putAll() {
    const { width, height } = this.canvas, { side } = this.stamps;
    if (!width || !height) return;
    const image = this.context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
    for (let at = 0; at < this.looks.length; at++) {
      const stamp = this.stamps.get(this.looks[at]).pixels, [x, y] = this.#pixel(at);
      const across = Math.min(side, width - x), down = Math.min(side, height - y);
      for (let row = 0; row < down; row++) {
        const from = row * side, to = (y + row) * width + x;
        for (let column = 0; column < across; column++) pixels[to + column] = stamp[from + column];
      }
    }
    this.context.putImageData(image, 0, 0);
  }
}

/** Places at which the two differ, those beyond the end of the latter included. */
function differing(before, after) {
  const found = [];
  for (let at = 0; at < Math.max(before.length, after.length); at++) if (before[at] !== after[at]) found.push(at);
  return found;
}
