// Zones and their events, listed beside the map.

import { EventKind } from "../../generated/shoal/v1/subscription_pb";
import type { Zone } from "../live/zones";
import { button, element, timeText } from "./elements";

/** The list keeps the newest events. */
const EVENTS_MAX = 200;

const TEXTS: Record<number, [string, string]> = {
  [EventKind.ENTER]: ["enter", "entered"],
  [EventKind.CROSS]: ["enter", "passed"],
  [EventKind.LEFT]: ["leave", "left"],
  [EventKind.REMOVED]: ["leave", "removed"],
  [EventKind.EXPIRED]: ["leave", "expired"],
  [EventKind.FILTERED]: ["leave", "filtered"],
  [EventKind.REGION_CHANGED]: ["leave", "zone changed"],
  [EventKind.CLEARED]: ["leave", "cleared"],
};

export interface ZoneListTarget {
  show(zone: Zone): void;
  remove(zone: Zone): void;
  select(object: bigint): void;
}

export class ZoneList {
  private readonly zones = element("zones", HTMLUListElement);
  private readonly events = element("events", HTMLOListElement);
  private readonly counts = new Map<number, HTMLElement>();

  constructor(private readonly target: ZoneListTarget) {}

  /** Lists these zones. */
  list(zones: Zone[]): void {
    this.counts.clear();
    this.zones.replaceChildren(
      ...zones.map((zone) => {
        const item = document.createElement("li");
        const name = button(zone.name, `Show ${zone.name}`, () => this.target.show(zone));
        name.className = "name";
        const count = document.createElement("span");
        this.counts.set(zone.id, count);
        const remove = button("×", `Remove ${zone.name}`, () => this.target.remove(zone));
        item.append(name, count, remove);
        return item;
      }),
    );
  }

  /** The number of objects in a zone. */
  count(zone: number, objects: number): void {
    const text = this.counts.get(zone);
    if (text !== undefined) text.textContent = String(objects);
  }

  clearEvents(): void {
    this.events.replaceChildren();
  }

  event(zone: Zone, kind: number, object: bigint, name: string, timeMs: number): void {
    const [group, text] = TEXTS[kind] ?? ["leave", `event ${kind}`];
    const item = document.createElement("li");
    const time = document.createElement("time");
    time.textContent = timeText(timeMs, false);
    const what = document.createElement("span");
    what.textContent = `${name} ${text}`;
    what.dataset.kind = group;
    const where = document.createElement("span");
    where.textContent = zone.name;
    const select = button("", `Select ${name}`, () => this.target.select(object));
    select.append(time, what, where);
    select.removeAttribute("aria-label");
    item.append(select);
    this.events.prepend(item);
    while (this.events.children.length > EVENTS_MAX) this.events.lastElementChild?.remove();
  }
}
