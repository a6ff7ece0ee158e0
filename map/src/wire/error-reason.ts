// The stable reason of an error: google.rpc.ErrorInfo among the details of a status.

import { fromBinary } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";

import { StatusSchema } from "../../generated/google/rpc/status_pb";
import { WireReader } from "./wire-reader";

const ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo";
const REASON_FIELD = 1;

/** Reads the header `grpc-status-details-bin`. Empty if it has no reason. */
export function readReason(details: string): string {
  try {
    const status = fromBinary(StatusSchema, base64Decode(details));
    const info = status.details.find((detail) => detail.typeUrl === ERROR_INFO);
    return info === undefined ? "" : reasonOf(info.value);
  } catch {
    return "";
  }
}

function reasonOf(info: Uint8Array): string {
  const reader = new WireReader(info);
  while (reader.next()) {
    if (reader.field === REASON_FIELD) {
      const [from, to] = reader.span();
      return new TextDecoder().decode(info.subarray(from, to));
    }
    reader.skip();
  }
  return "";
}
