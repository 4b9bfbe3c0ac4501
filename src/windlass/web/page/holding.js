// Holding: rows of a list stay where they are while the pointer or the focus is on one, so that what is
// clicked is what was aimed at. What came meanwhile is shown afterwards.

import { setText } from "./dom.js";

const RESTS_MS = 20000; // without a move: the pointer is idle

export class Holding {
  /** `note` says that the list waits; `ended` is called when rows that waited may move. */
  constructor(list, note, ended) {
    [this.list, this.note, this.ended] = [list, note, ended];
    this.isPointed = this.isEntered = this.isResting = this.isLate = false;
    for (const move of ["pointerenter", "pointermove"]) list.addEventListener(move, () => this.#stay({ isPointed: true }));
    for (const move of ["keydown", "wheel"]) list.addEventListener(move, () => this.#stay({}), { passive: true });
    list.addEventListener("focusin", () => this.#stay({ isEntered: true }));
    list.addEventListener("pointerleave", () => this.#leave({ isPointed: false }));
    list.addEventListener("focusout", ({ relatedTarget }) => { if (!list.contains(relatedTarget)) this.#leave({ isEntered: false }); });
  }

  get isHeld() { return (this.isPointed || this.isEntered) && !this.isResting && this.list.querySelector("button") !== null; }

  /** Something waits: say so if rows came or went. */
  tell(came, went) {
    this.isLate = true;
    setText(this.note, came || went ? `waits while you look${came ? ` · ${came} new` : ""}` : "");
  }

  /** Nothing waits any more. */
  free() {
    this.isLate = false;
    setText(this.note, "");
  }

  #stay(where) {
    Object.assign(this, where, { isResting: false });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#leave({ isResting: true }), RESTS_MS);
  }

  #leave(where) {
    Object.assign(this, where);
    if (this.isLate && !this.isHeld) this.ended();
  }
}
