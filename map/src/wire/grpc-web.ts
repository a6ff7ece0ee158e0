// Calls of gRPC-Web over fetch: one request message, one or many response messages.
//
// Messages are bytes here; `calls.ts` gives them types. A call that fails throws a CallError with the
// status code of gRPC and, where the server states one, the stable reason of error.proto.

import { readReason } from "./error-reason";

/** Status codes of gRPC that the page distinguishes. */
export const Code = {
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  notFound: 5,
  permissionDenied: 7,
  failedPrecondition: 9,
  unimplemented: 12,
  unavailable: 14,
  unauthenticated: 16,
} as const;

/** The longest message that the page accepts. In streams the server sends at most 1 MiB. */
const MESSAGE_BYTES_MAX = 16 << 20;
const PREFIX_BYTES = 5;
const TRAILERS = 0x80;

export class CallError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly reason = "",
  ) {
    super(message);
    this.name = "CallError";
  }
}

/** What a call needs in addition to its message. */
export interface Endpoint {
  /** Where the services are, without a slash at the end. */
  base: string;
  /** The token of the user; empty without one. */
  token: () => string;
}

/** Calls `path` and yields the messages of the response. */
export async function* call(
  endpoint: Endpoint,
  path: string,
  request: Uint8Array,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const response = await post(endpoint, path, request, signal);
  checkStatus(response.headers);
  if (!response.ok || response.body === null) {
    throw new CallError(codeOfHttp(response.status), `HTTP status ${response.status}`);
  }
  const frames = new FrameReader();
  for await (const chunk of chunks(response.body)) {
    for (const frame of frames.push(chunk)) {
      if ((frame.flags & TRAILERS) === 0) {
        yield frame.bytes;
        continue;
      }
      checkStatus(parseTrailers(frame.bytes));
      return;
    }
  }
  throw new CallError(Code.unavailable, "the connection ended before the answer");
}

async function post(
  endpoint: Endpoint,
  path: string,
  request: Uint8Array,
  signal?: AbortSignal,
): Promise<Response> {
  const body = new Uint8Array(PREFIX_BYTES + request.length);
  new DataView(body.buffer).setUint32(1, request.length);
  body.set(request, PREFIX_BYTES);
  const headers = new Headers({
    "content-type": "application/grpc-web+proto",
    "x-grpc-web": "1",
  });
  const token = endpoint.token();
  if (token !== "") headers.set("authorization", `Bearer ${token}`);
  try {
    const options: RequestInit = { method: "POST", headers, body, cache: "no-store" };
    if (signal !== undefined) options.signal = signal;
    return await fetch(endpoint.base + path, options);
  } catch (error) {
    throw asCallError(error);
  }
}

async function* chunks(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } catch (error) {
    throw asCallError(error);
  } finally {
    // Ends the call at the server when the caller leaves early.
    reader.cancel().catch(() => undefined);
  }
}

function asCallError(error: unknown): CallError {
  if (error instanceof CallError) return error;
  if (error instanceof DOMException && error.name === "AbortError") {
    return new CallError(Code.cancelled, "cancelled");
  }
  return new CallError(Code.unavailable, "the server cannot be reached");
}

/** Throws the error of a response that has one in its headers or trailers. */
function checkStatus(fields: Headers): void {
  const status = fields.get("grpc-status");
  if (status === null || status === "0") return;
  const message = decodePercent(fields.get("grpc-message") ?? "");
  const details = fields.get("grpc-status-details-bin");
  throw new CallError(Number(status), message, details === null ? "" : readReason(details));
}

/** Decodes percent-encoding. Returns the text unchanged if it is malformed. */
function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function parseTrailers(bytes: Uint8Array): Headers {
  const fields = new Headers();
  for (const line of new TextDecoder().decode(bytes).split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) fields.append(line.slice(0, colon).trim(), line.slice(colon + 1).trim());
  }
  return fields;
}

/** By the table of the gRPC documentation, "HTTP to gRPC status code mapping". */
function codeOfHttp(status: number): number {
  switch (status) {
    case 401:
      return Code.unauthenticated;
    case 403:
      return Code.permissionDenied;
    case 404:
      return Code.unimplemented;
    case 429:
    case 502:
    case 503:
    case 504:
      return Code.unavailable;
    default:
      return Code.unknown;
  }
}

interface Frame {
  flags: number;
  bytes: Uint8Array<ArrayBuffer>;
}

/** Cuts a stream of bytes into frames, whatever its chunks are. */
export class FrameReader {
  private readonly prefix = new Uint8Array(PREFIX_BYTES);
  private prefixLength = 0;
  private body: Uint8Array<ArrayBuffer> | null = null;
  private bodyLength = 0;

  *push(chunk: Uint8Array): Generator<Frame> {
    let at = 0;
    while (at < chunk.length) {
      if (this.body === null) {
        at = this.readPrefix(chunk, at);
        if (this.body === null) return;
      }
      const body: Uint8Array<ArrayBuffer> = this.body;
      const taken = Math.min(chunk.length - at, body.length - this.bodyLength);
      body.set(chunk.subarray(at, at + taken), this.bodyLength);
      this.bodyLength += taken;
      at += taken;
      if (this.bodyLength < body.length) return;
      this.body = null;
      this.prefixLength = 0;
      yield { flags: this.prefix[0], bytes: body };
    }
  }

  private readPrefix(chunk: Uint8Array, start: number): number {
    let at = start;
    while (this.prefixLength < PREFIX_BYTES && at < chunk.length) {
      this.prefix[this.prefixLength++] = chunk[at++];
    }
    if (this.prefixLength === PREFIX_BYTES) {
      const length = new DataView(this.prefix.buffer).getUint32(1);
      if (length > MESSAGE_BYTES_MAX) {
        throw new CallError(Code.unknown, `a message of ${length} bytes is too long`);
      }
      this.body = new Uint8Array(length);
      this.bodyLength = 0;
    }
    return at;
  }
}
