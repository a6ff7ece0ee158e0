// The fields of the selected object.

import type { FixRecord } from "../../generated/shoal/v1/query_pb";
import { element, timeText } from "./elements";

export class ObjectCard {
  private readonly card = element("object", HTMLElement);
  private readonly name = element("object-name", HTMLElement);
  private readonly fields = element("object-fields", HTMLElement);
  private readonly trackNote = element("object-track", HTMLElement);

  constructor(closed: () => void) {
    element("object-close", HTMLButtonElement).addEventListener("click", closed);
  }

  hide(): void {
    this.card.hidden = true;
  }

  /** Shows a record; null if the object does not exist. */
  show(name: string, fix: FixRecord | null, isGeographic: boolean): void {
    this.card.hidden = false;
    this.name.textContent = name;
    const rows = fix === null ? [["", "does not exist"]] : fieldsOf(fix, isGeographic);
    this.fields.replaceChildren(
      ...rows.flatMap(([label, value]) => {
        const [term, detail] = [document.createElement("dt"), document.createElement("dd")];
        term.textContent = label;
        detail.textContent = value;
        return [term, detail];
      }),
    );
  }

  track(text: string): void {
    this.trackNote.textContent = text;
  }
}

function fieldsOf(fix: FixRecord, isGeographic: boolean): string[][] {
  const [x, y] = isGeographic ? ["longitude", "latitude"] : ["x", "y"];
  const unit = isGeographic ? "°" : " m";
  const digits = isGeographic ? 6 : 2;
  const rows = [
    ["time", timeText(Number(fix.timeMs), true)],
    [x, fix.x.toFixed(digits) + unit],
    [y, fix.y.toFixed(digits) + unit],
  ];
  if (fix.speedMps !== undefined) rows.push(["speed", `${fix.speedMps.toFixed(1)} m/s`]);
  if (fix.headingDeg !== undefined) rows.push(["heading", `${fix.headingDeg.toFixed(0)}°`]);
  if (fix.altitudeM !== undefined) rows.push(["altitude", `${fix.altitudeM.toFixed(1)} m`]);
  if (fix.validS !== undefined) rows.push(["valid for", `${fix.validS} s`]);
  if (fix.state !== 0) rows.push(["state", `0x${fix.state.toString(16)}`]);
  return rows;
}
