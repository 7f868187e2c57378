import { createClient, createContextValues, createRouterTransport } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import type { ModelLoader } from "../core/model-loader.ts";
import { agentRoutes } from "./agent-server.ts";
import { Agent } from "./gen/cgn/agent/v1/agent_pb.ts";
import { peerOf, WIRE_PEER, type WirePeer } from "./wire-peer.ts";

describe("peerOf()", () => {
  it("peerOf() believes this host, and elsewhere who showed a right certificate", () => {
    for (const remoteAddress of [undefined, "127.0.0.1", "::1", "::ffff:127.0.0.9"]) {
      expect(peerOf({ remoteAddress } as never).isProved).toBe(true);
    }
    expect(peerOf({ remoteAddress: "10.0.0.9" }).isProved).toBe(false);
    expect(peerOf({ remoteAddress: "10.0.0.9", authorized: false } as never).isProved).toBe(false);
    expect(peerOf({ remoteAddress: "10.0.0.9", authorized: true } as never).isProved).toBe(true);
  });
});

describe("agentRoutes()", () => {
  it("agentRoutes() loads and unloads for callers that are proved only, and hears demand of all", async () => {
    const done: string[] = [];
    const loader: ModelLoader = {
      demand: (router) => void done.push(`demand ${router}`),
      load: async (name) => [workerId(`load ${name}`)],
      unload: async (name) => [workerId(`unload ${name}`)],
    };
    const clientOf = (peer: WirePeer) => {
      const directory = { list: () => [], subscribe: () => () => {} };
      const contextValues = createContextValues().set(WIRE_PEER, peer);
      const transport = createRouterTransport(agentRoutes(directory, loader), {
        router: {
          interceptors: [
            (next) => (req) =>
              next({
                ...req,
                contextValues: req.contextValues.set(WIRE_PEER, contextValues.get(WIRE_PEER)),
              } as typeof req),
          ],
        },
      });
      return createClient(Agent, transport);
    };
    expect((await clientOf({ isProved: true }).load({ name: "m" })).workers).toEqual(["load m"]);
    const stranger = clientOf({ isProved: false });
    await expect(stranger.load({ name: "m" })).rejects.toThrow(/permission_denied.*has not proved/);
    await expect(stranger.unload({ name: "m" })).rejects.toThrow(/permission_denied/);
    await stranger.demand({ router: "r", models: [], workers: [] });
    expect(done).toEqual(["demand r"]);
  });
});
