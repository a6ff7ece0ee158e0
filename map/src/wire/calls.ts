// Typed calls of the services of shoal.v1.

import {
  create,
  fromBinary,
  toBinary,
  type DescMessage,
  type DescMethod,
  type MessageInitShape,
  type MessageShape,
} from "@bufbuild/protobuf";

import { call, CallError, Code, type Endpoint } from "./grpc-web";

type Method<I extends DescMessage, O extends DescMessage> = DescMethod & { input: I; output: O };

export class Calls {
  constructor(private readonly endpoint: Endpoint) {}

  /** Calls a method that answers with one message. */
  async unary<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
    signal?: AbortSignal,
  ): Promise<MessageShape<O>> {
    for await (const message of this.bytes(method, request, signal)) {
      return fromBinary(method.output, message);
    }
    throw new CallError(Code.unknown, "the answer has no message");
  }

  /** Calls a method that answers with a stream. */
  async *stream<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
    signal?: AbortSignal,
  ): AsyncGenerator<MessageShape<O>> {
    for await (const message of this.bytes(method, request, signal)) {
      yield fromBinary(method.output, message);
    }
  }

  /** As `stream`, but yields encoded messages, for callers that decode them. */
  bytes<I extends DescMessage, O extends DescMessage>(
    method: Method<I, O>,
    request: MessageInitShape<I>,
    signal?: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    const body = toBinary(method.input, create(method.input, request));
    const path = `/${method.parent.typeName}/${method.name}`;
    return call(this.endpoint, path, body, signal);
  }
}
