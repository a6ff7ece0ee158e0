// The token of the user: asked for when the server wants one, and kept until the tab closes.

import { element } from "./elements";

const KEY = "shoal.token";

export function storedToken(): string {
  return sessionStorage.getItem(KEY) ?? "";
}

export class TokenDialog {
  private readonly dialog = element("token", HTMLDialogElement);
  private readonly text = element("token-text", HTMLInputElement);
  private readonly reason = element("token-reason", HTMLElement);

  constructor(entered: () => void) {
    element("token-cancel", HTMLButtonElement).addEventListener("click", () => this.dialog.close());
    this.dialog.querySelector("form")?.addEventListener("submit", () => {
      sessionStorage.setItem(KEY, this.text.value.trim());
      this.text.value = "";
      entered();
    });
  }

  ask(reason: string): void {
    if (this.dialog.open) return;
    this.reason.textContent = reason;
    this.dialog.showModal();
    this.text.focus();
  }
}
