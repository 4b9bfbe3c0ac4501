// Turns: what a person does is shown with the next picture; what streamed in follows in small pieces, between pictures.

const PIECE_MS = 5; // a click that comes meanwhile waits no longer
const LATEST_MS = 200; // though the page is never idle

let queued = null;
/** Call back before the next picture, once for any number of requests: for work that the user waits for. */
export function soon(act) {
  if (queued) { queued.add(act); return; }
  queued = new Set([act]);
  requestAnimationFrame(() => {
    const acts = queued;
    queued = null;
    for (const one of acts) one();
  });
}

const waiting = new Set();
let isHeld = false, isGoing = false;
const whenIdle = globalThis.requestIdleCallback ?? ((act) => setTimeout(act));

/** Call back when no frame is pending, once, in the order of requests. Each callback should be short. */
export function later(act) {
  waiting.add(act);
  go();
}

function go() {
  if (isGoing || isHeld || !waiting.size) return;
  isGoing = true;
  // After a picture: nothing is drawn twice for one, nor at all in a hidden page.
  requestAnimationFrame(() => whenIdle(work, { timeout: LATEST_MS }));
}

function work() {
  isGoing = false;
  if (isHeld) return;
  const began_ms = performance.now();
  for (const act of waiting) {
    waiting.delete(act);
    act();
    if (performance.now() - began_ms > PIECE_MS) break;
  }
  go();
}

/** Until what was typed or clicked is to be seen. */
function hold() {
  if (isHeld) return;
  isHeld = true;
  requestAnimationFrame(() => setTimeout(() => { isHeld = false; go(); }));
}

for (const input of ["keydown", "pointerdown", "pointerup", "click", "input"]) addEventListener(input, hold, { capture: true, passive: true });
