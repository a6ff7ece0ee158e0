// The line at the top: the state of the connection, and the number of objects shown.

import type { SessionState } from "../live/session";
import { element } from "./elements";

export class StatusLine {
  private readonly status = element("status", HTMLElement);
  private readonly count = element("count", HTMLElement);
  private readonly retry = element("retry", HTMLButtonElement);

  constructor(retry: () => void) {
    this.retry.addEventListener("click", retry);
  }

  session(state: SessionState): void {
    switch (state.kind) {
      case "connecting":
      case "live":
        return this.show(state.kind, state.kind);
      case "stale":
        return this.show("stale", "stale: no news from the server");
      case "gone": {
        const seconds = Math.ceil(state.retryMs / 1_000);
        return this.show("gone", `server gone, next attempt in ${seconds} s`, state.message);
      }
      case "unauthenticated":
        return this.show("token", "a token is needed", state.message);
      case "failed":
        return this.show("failed", state.message);
    }
  }

  past(text: string): void {
    this.show("past", text);
  }

  failed(message: string): void {
    this.show("failed", message);
  }

  objects(text: string): void {
    if (this.count.textContent !== text) this.count.textContent = text;
  }

  private show(state: string, text: string, detail = ""): void {
    if (this.status.dataset.state === state && this.status.textContent === text) return;
    this.status.dataset.state = state;
    this.status.textContent = text;
    this.status.title = detail;
    this.retry.hidden = !["gone", "token"].includes(state);
  }
}
