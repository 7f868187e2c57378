import { create } from "@bufbuild/protobuf";
import { CgnError } from "../core/errors.ts";
import { HAND_OVER_PROTOCOLS, type HandOver } from "../core/hand-over.ts";
import type { Peering } from "../core/host-needs.ts";
import {
  type HandOver as HandOverMessage,
  HandOverSchema,
  type Peering as PeeringMessage,
  PeeringSchema,
} from "./gen/cgn/kv/v1/kv_pb.ts";

/** Write how a worker hands over for the wire. */
export function handOverToMessage(handOver: HandOver): HandOverMessage {
  const { protocol, group, host, port, engineId, peering } = handOver;
  return create(HandOverSchema, {
    protocol,
    group: group ?? "",
    host: host ?? "",
    port: port ?? 0,
    engineId: engineId ?? "",
    ...(peering === undefined ? {} : { peering: create(PeeringSchema, { ...peering }) }),
  });
}

/**
 * Read it from the wire.
 * @throws CgnError REQUEST_INVALID for a protocol that this version does not know
 */
export function handOverFromMessage(message: HandOverMessage): HandOver {
  const { protocol, group, host, port, engineId, peering } = message;
  const known = HAND_OVER_PROTOCOLS.find((each) => each === protocol);
  if (known === undefined) {
    const should = `Use ${HAND_OVER_PROTOCOLS.join(", ")}`;
    const text = `Cannot read the worker: hand_over.protocol is "${protocol}". ${should}`;
    throw new CgnError("REQUEST_INVALID", text, { param: "hand_over.protocol" });
  }
  return {
    protocol: known,
    ...(group === "" ? {} : { group }),
    ...(host === "" ? {} : { host }),
    ...(port === 0 ? {} : { port }),
    ...(engineId === "" ? {} : { engineId }),
    ...(peering === undefined ? {} : { peering: peeringOf(peering) }),
  };
}

function peeringOf({ $typeName: _name, $unknown: _unknown, hashSeed, version, ...rest }: PeeringMessage): Peering {
  return {
    ...rest,
    ...(hashSeed === undefined ? {} : { hashSeed }),
    ...(version === undefined ? {} : { version }),
  };
}
