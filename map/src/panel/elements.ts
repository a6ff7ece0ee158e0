// Elements of the page by their id.

/** The element of the page with this id. */
export function element<T extends HTMLElement>(id: string, type: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${type.name} #${id}`);
  return found;
}

/** A button with a text. */
export function button(text: string, label: string, pressed: () => void): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.setAttribute("aria-label", label);
  made.addEventListener("click", pressed);
  return made;
}

/** A time of the day, or with the date. */
export function timeText(timeMs: number, hasDate: boolean): string {
  const date = new Date(timeMs);
  const time = date.toLocaleTimeString("en-GB");
  return hasDate ? `${date.toLocaleDateString("sv-SE")} ${time}` : time;
}
