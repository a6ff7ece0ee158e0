// The slider over the history: a span of time that ends at the newest state of the history.

import { element, timeText } from "./elements";

const STEPS = 1_000;
/** Least interval between two requests during a drag, milliseconds. */
const ASK_MS = 150;

export interface TimeBarTarget {
  live(): void;
  moment(timeMs: number): void;
  play(isPlaying: boolean): void;
}

export class TimeBar {
  private readonly live = element("live", HTMLButtonElement);
  private readonly playButton = element("play", HTMLButtonElement);
  private readonly span = element("span", HTMLSelectElement);
  private readonly slider = element("moment", HTMLInputElement);
  private readonly text = element("moment-text", HTMLElement);
  private endMs = Date.now();
  private keptFromMs = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isPlaying = false;

  constructor(private readonly target: TimeBarTarget) {
    this.slider.max = String(STEPS);
    this.slider.addEventListener("input", () => this.moved());
    this.span.addEventListener("change", () => {
      if (!this.isLive) this.moved();
    });
    this.live.addEventListener("click", () => this.goLive());
    this.playButton.addEventListener("click", () => this.setPlaying(!this.isPlaying));
  }

  get isLive(): boolean {
    return this.live.getAttribute("aria-pressed") === "true";
  }

  /** Sets the time at which the history of the fleet ends; null without a history. */
  setEnd(endMs: number | null): void {
    this.slider.disabled = endMs === null;
    this.span.disabled = endMs === null;
    this.slider.title = endMs === null ? "This server keeps no history of the fleet" : "";
    if (endMs !== null && this.isLive) this.endMs = endMs;
  }

  /** Fixes before this time are not kept. */
  setKeptFrom(keptFromMs: number): void {
    this.keptFromMs = keptFromMs;
  }

  /** Shows a moment that a replay has reached. */
  reached(timeMs: number): void {
    const spanMs = Number(this.span.value);
    this.slider.value = String(STEPS * (1 - (this.endMs - timeMs) / spanMs));
    this.text.textContent = timeText(timeMs, true);
  }

  goLive(): void {
    if (this.isLive) return;
    this.stopPlaying();
    this.setLive(true);
    this.slider.value = String(STEPS);
    this.text.textContent = "now";
    this.target.live();
  }

  stopPlaying(): void {
    if (this.isPlaying) this.setPlaying(false);
  }

  private setPlaying(isPlaying: boolean): void {
    this.isPlaying = isPlaying;
    this.playButton.setAttribute("aria-pressed", String(isPlaying));
    this.target.play(isPlaying);
  }

  private moved(): void {
    this.stopPlaying();
    this.setLive(false);
    const back = 1 - Number(this.slider.value) / STEPS;
    const timeMs = Math.round(this.endMs - back * Number(this.span.value));
    const momentMs = Math.max(timeMs, this.keptFromMs);
    this.text.textContent = timeText(momentMs, true);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.target.moment(momentMs), ASK_MS);
  }

  private setLive(isLive: boolean): void {
    if (isLive) clearTimeout(this.timer);
    this.live.setAttribute("aria-pressed", String(isLive));
    this.playButton.hidden = isLive;
  }
}
