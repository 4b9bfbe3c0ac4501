// Small helpers for elements. Texts are only ever set as text.

export const $ = (id) => document.getElementById(id);

/** el("button.plain", { type: "button" }, "Text", child, …) */
export function el(kind, given = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

export function setText(element, text) { if (element.textContent !== text) element.textContent = text; }

/** Make a list's children those of `items`, reusing elements by key: focus and selection stay where they are. */
export function reconcile(list, items, keyOf, make, update) {
  const known = new Map([...list.children].map((child) => [child.dataset.key, child]));
  let at = list.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = known.get(key);
    if (child) known.delete(key);
    else { child = make(item); child.dataset.key = key; }
    update(child, item);
    if (child === at) at = at.nextElementSibling;
    else list.insertBefore(child, at);
  }
  for (const child of known.values()) child.remove();
}
