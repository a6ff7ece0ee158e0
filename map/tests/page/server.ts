// A server for a test: started on free ports with an empty data folder, reported to over gRPC-Web.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { FleetService } from "../../generated/shoal/v1/fleet_pb";
import { PositionService } from "../../generated/shoal/v1/position_pb";
import { Calls } from "../../src/wire/calls";

/** The binary, built with `cargo build --profile test -p shoal-cli --features map`. */
const BINARY = process.env.SHOAL_BIN ?? join(process.cwd(), "..", "target", "debug", "shoal");
const START_MS = 30_000;

export interface Position {
  object: bigint;
  timeMs: number;
  x: number;
  y: number;
  speedMps?: number;
  headingDeg?: number;
}

export class ShoalServer {
  private process: ChildProcess | null = null;
  private readonly folder = mkdtempSync(join(tmpdir(), "shoal-map-"));
  private log = "";

  private constructor(
    readonly port: number,
    readonly grpcPort: number,
    private readonly args: string[],
  ) {}

  static async start(...args: string[]): Promise<ShoalServer> {
    const [port, grpcPort] = [await freePort(), await freePort()];
    const server = new ShoalServer(port, grpcPort, args);
    await server.launch();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  get calls(): Calls {
    return new Calls({ base: this.url, token: () => "" });
  }

  /** Starts the process, also again after `kill`. */
  async launch(): Promise<void> {
    const args = [
      "serve",
      ...["--listen", `127.0.0.1:${this.grpcPort}`, "--http-listen", `127.0.0.1:${this.port}`],
      ...["--data", this.folder, "--history", "--engine", "cpu"],
      ...["--limit", "history_seal_ms=200"],
      ...this.args,
    ];
    const started = spawn(BINARY, args, { stdio: ["ignore", "pipe", "pipe"] });
    this.process = started;
    for (const stream of [started.stdout, started.stderr]) {
      stream.on("data", (data: Buffer) => (this.log = (this.log + data.toString()).slice(-8_000)));
    }
    const endMs = Date.now() + START_MS;
    for (;;) {
      try {
        await this.calls.unary(FleetService.method.listFleets, {});
        return;
      } catch (error) {
        if (started.exitCode !== null || Date.now() > endMs) {
          throw new Error(`the server did not start: ${String(error)}\n${this.log}`);
        }
      }
      await sleep(100);
    }
  }

  /** Ends the process at once. */
  async kill(): Promise<void> {
    const { process } = this;
    this.process = null;
    if (process === null || process.exitCode !== null) return;
    const exited = once(process, "exit");
    process.kill("SIGKILL");
    await exited;
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async report(fleet: string, positions: Position[]): Promise<void> {
    const fixes = positions.map((it) => ({ ...it, timeMs: BigInt(it.timeMs) }));
    const payload = { case: "rows", value: { fixes } } as const;
    const { ack } = await this.calls.unary(PositionService.method.reportOnce, { fleet, payload });
    const refused = Number(ack?.rows?.refused ?? 0n);
    if (refused > 0) throw new Error(`${refused} rows were refused`);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits until a condition holds. */
export async function until(
  what: string,
  condition: () => Promise<boolean>,
  waitMs = 30_000,
): Promise<void> {
  const endMs = Date.now() + waitMs;
  while (!(await condition())) {
    if (Date.now() > endMs) throw new Error(`not in ${waitMs} ms: ${what}`);
    await sleep(50);
  }
}
