// A subscription that outlasts its streams. It opens a session, changes its regions, and resumes it
// when the stream breaks.
//
// A broken stream is resumed with the token of the last message, so nothing is lost while the server
// keeps the session. The regions of the session change by Modify, one call at a time. When the outcome
// of a Modify is unknown, the session is given up, and a new one begins with all regions.

import type { Duration } from "@bufbuild/protobuf/wkt";

import type { RegionSubscription } from "../../generated/shoal/v1/subscription_pb";
import { SubscriptionService } from "../../generated/shoal/v1/subscription_pb";
import type { Calls } from "../wire/calls";
import { CallError, Code } from "../wire/grpc-web";
import type { RowColumns } from "../wire/row-columns";
import { type SessionEvents, SessionReader } from "../wire/session-reader";

/** Delays between attempts: doubled from the least to the greatest. */
const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 10_000;
/**
 * The server sends a message every second. After these times without one the state is shown as
 * stale, and the stream is aborted.
 */
const STALE_MS = 3_000;
const DEAD_MS = 10_000;
const RETENTION: Duration = { $typeName: "google.protobuf.Duration", seconds: 60n, nanos: 0 };

/** The connection as the user sees it. */
export type SessionState =
  | { kind: "connecting" }
  | { kind: "live" }
  | { kind: "stale" }
  | { kind: "gone"; retryMs: number; message: string }
  | { kind: "unauthenticated"; message: string }
  | { kind: "failed"; message: string };

export interface SessionListener {
  state(state: SessionState): void;
  members(region: number, isFirst: boolean, isLast: boolean, total: number, rows: RowColumns): void;
  events(region: number, clockMs: number, rows: RowColumns): void;
  clock(clockMs: number): void;
  /** The server refused a region. */
  refused(region: number, message: string): void;
}

export class Session {
  private readonly reader = new SessionReader();
  private readonly wanted = new Map<number, RegionSubscription>();
  /** The regions of the server's session. */
  private readonly held = new Map<number, RegionSubscription>();
  /** Regions whose events are ignored until their next snapshot. */
  private readonly lagging = new Set<number>();
  private resumeToken: Uint8Array = new Uint8Array();
  private handle: Uint8Array | null = null;
  private isModifying = false;
  private readonly ended = new AbortController();
  private stream: AbortController | null = null;
  private wake: (() => void) | null = null;
  private lastMessageMs = 0;

  constructor(
    private readonly calls: Calls,
    private readonly fleet: string,
    private readonly listener: SessionListener,
  ) {}

  /** Follows a region, or changes it. */
  setRegion(region: RegionSubscription): void {
    this.wanted.set(Number(region.regionId), region);
    void this.modify();
  }

  dropRegion(region: number): void {
    this.wanted.delete(region);
    void this.modify();
  }

  /** Tries again at once. */
  retry(): void {
    this.wake?.();
  }

  close(): void {
    this.ended.abort();
    this.stream?.abort();
    this.wake?.();
    if (this.handle !== null) {
      const request = { fleet: this.fleet, session: this.handle, close: true };
      // The session ends by itself if this does not arrive.
      this.calls.unary(SubscriptionService.method.modify, request).catch(() => undefined);
    }
  }

  /** Runs until `close`, or until an error that a retry cannot resolve. */
  async run(): Promise<void> {
    const watch = setInterval(() => this.watchSilence(), 1_000);
    let wait = RETRY_MS_MIN;
    this.listener.state({ kind: "connecting" });
    while (!this.ended.signal.aborted) {
      const startMs = performance.now();
      const error = await this.readStream();
      if (this.ended.signal.aborted) break;
      if (!this.report(error, wait)) break;
      if (performance.now() - startMs > RETRY_MS_MAX) wait = RETRY_MS_MIN;
      await this.sleep(error.code === Code.unauthenticated ? null : wait);
      wait = Math.min(wait * 2, RETRY_MS_MAX);
    }
    clearInterval(watch);
  }

  /** Reports an error. Returns false if a retry cannot succeed. */
  private report(error: CallError, retryMs: number): boolean {
    const { message } = error;
    switch (error.code) {
      case Code.unauthenticated:
        this.listener.state({ kind: "unauthenticated", message });
        return true;
      case Code.permissionDenied:
      case Code.notFound:
      case Code.invalidArgument:
      case Code.unimplemented:
        this.forget();
        this.listener.state({ kind: "failed", message });
        return error.reason === "TOKEN" || error.reason === "TOKEN_TERM";
      default:
        this.listener.state({ kind: "gone", retryMs, message });
        return true;
    }
  }

  /** Opens or resumes the session, and reads it until it breaks. */
  private async readStream(): Promise<CallError> {
    this.stream = new AbortController();
    this.lastMessageMs = performance.now();
    const sent = new Map(this.wanted);
    const request = {
      fleet: this.fleet,
      regions: [...sent.values()],
      resumeToken: this.resumeToken,
      retention: RETENTION,
    };
    const { subscribe } = SubscriptionService.method;
    const to = this.events(sent);
    try {
      for await (const message of this.calls.bytes(subscribe, request, this.stream.signal)) {
        this.lastMessageMs = performance.now();
        this.resumeToken = this.reader.read(message, to);
      }
      return new CallError(Code.unavailable, "the server ended the session");
    } catch (error) {
      if (error instanceof CallError) return error;
      this.forget();
      return new CallError(Code.unknown, `a message cannot be read: ${String(error)}`);
    } finally {
      this.handle = null;
    }
  }

  /** Forgets the session, so that the next stream opens a new one. */
  private forget(): void {
    this.resumeToken = new Uint8Array();
    this.handle = null;
  }

  private events(sent: ReadonlyMap<number, RegionSubscription>): SessionEvents {
    return {
      opened: (message) => {
        this.handle = message.session;
        if (!message.resumed) this.begin(sent);
        this.listener.state({ kind: "live" });
        void this.modify();
      },
      members: (region, isFirst, isLast, total, rows) => {
        if (isFirst) this.lagging.delete(region);
        if (this.wanted.has(region)) this.listener.members(region, isFirst, isLast, total, rows);
      },
      events: (region, clockMs, rows) => {
        if (!this.wanted.has(region) || this.lagging.has(region)) return;
        this.listener.events(region, clockMs, rows);
      },
      clock: (clockMs) => this.listener.clock(clockMs),
      // Snapshots follow. They replace the known state.
      gap: () => undefined,
      lagged: ({ regionIds }) => {
        const ids = regionIds.length > 0 ? regionIds.map(Number) : [...this.held.keys()];
        for (const id of ids) this.lagging.add(id);
      },
    };
  }

  /** The server began a new session with these regions, even if the page asked to resume one. */
  private begin(sent: ReadonlyMap<number, RegionSubscription>): void {
    this.held.clear();
    this.lagging.clear();
    for (const [id, region] of sent) this.held.set(id, region);
  }

  /** Changes the regions of the server's session to the wanted ones. */
  private async modify(): Promise<void> {
    if (this.isModifying || this.handle === null) return;
    const change = this.difference();
    if (change === null) return;
    this.isModifying = true;
    try {
      const request = { fleet: this.fleet, session: this.handle, ...change };
      const response = await this.calls.unary(SubscriptionService.method.modify, request);
      for (const id of change.remove) this.held.delete(Number(id));
      for (const it of [...change.add, ...change.change]) this.held.set(Number(it.regionId), it);
      for (const failed of response.errors) {
        const id = Number(failed.regionId);
        this.held.delete(id);
        this.wanted.delete(id);
        this.listener.refused(id, failed.status?.message ?? "refused");
      }
    } catch {
      this.forget();
      this.stream?.abort();
      return;
    } finally {
      this.isModifying = false;
    }
    void this.modify();
  }

  private difference(): {
    add: RegionSubscription[];
    change: RegionSubscription[];
    remove: bigint[];
  } | null {
    const add: RegionSubscription[] = [];
    const change: RegionSubscription[] = [];
    for (const [id, region] of this.wanted) {
      const held = this.held.get(id);
      if (held === undefined) add.push(region);
      else if (held !== region) change.push(region);
    }
    const gone = [...this.held.keys()].filter((id) => !this.wanted.has(id));
    if (add.length + change.length + gone.length === 0) return null;
    return { add, change, remove: gone.map(BigInt) };
  }

  private watchSilence(): void {
    if (this.stream === null) return;
    const silenceMs = performance.now() - this.lastMessageMs;
    if (silenceMs > DEAD_MS) this.stream.abort();
    else if (this.handle !== null) {
      this.listener.state({ kind: silenceMs > STALE_MS ? "stale" : "live" });
    }
  }

  /** Waits for `waitMs`, or until `retry` or `close`; with null, only until one of these. */
  private sleep(waitMs: number | null): Promise<void> {
    return new Promise((resolve) => {
      const timer = waitMs === null ? undefined : setTimeout(resolve, waitMs);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
