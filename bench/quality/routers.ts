import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import type { TokenForm } from "./serve.ts";

/** Where a router finds the fleet and where it listens. */
export interface RouterPlaces {
  /** [engines] */
  readonly urls: readonly string[];
  /** [engines] ports of KV events. */
  readonly events: readonly number[];
  /** Of the router, its admin port and one more. */
  readonly port: number;
  readonly admin: number;
  readonly spare: number;
  /** A folder with a tokenizer whose tokens are bytes, and a template that is the content alone. */
  readonly tokenizer: string;
}

export interface RouterUnderTest {
  readonly name: string;
  /** KV events, as this router can read them; undefined: it reads none. */
  readonly events: TokenForm | undefined;
  /** How many processes share the requests. */
  readonly routers: number;
  /** One process each; programs that are shared come first. */
  commands(places: readonly RouterPlaces[]): readonly (readonly string[])[];
}

const ROOT = join(import.meta.dirname, "..", "..");
/** What is published, where it was built: from its source a request costs some 5 µs more. */
const BUILT = join(ROOT, "dist", "cli", "bin", "cgn.js");
const CGN = existsSync(BUILT) ? BUILT : join(ROOT, "src", "cli", "bin", "cgn.ts");

/** Python environments with the peers: `CGN_PEERS/{smg,vllmr,sglr}` (docs/routing.md says what to install). */
const PEERS = process.env["CGN_PEERS"] ?? join(homedir(), ".cache", "cgn-peers", "venvs");

function cgnEngines({ urls, events, tokenizer }: RouterPlaces): string[] {
  return urls.flatMap((url, i) => [
    "--engine",
    `${url},kind=vllm,model=m,tokenizer=${tokenizer},events=tcp://127.0.0.1:${events[i]}`,
  ]);
}

function cgnRouter(places: RouterPlaces, more: readonly string[]): string[] {
  const listen = ["--listen", `127.0.0.1:${places.port}`, "--admin", `127.0.0.1:${places.admin}`];
  return [process.execPath, CGN, "router", "--log-level", "warn", ...listen, ...cgnEngines(places), ...more];
}

function ours(name: string, policy: string): RouterUnderTest {
  return {
    name,
    events: "bytes",
    routers: 1,
    commands: ([places]) => [cgnRouter(places!, ["--policy", policy])],
  };
}

/** Several routers that keep copies of one kvcached's index, and hear through it of each other's bookings. */
function several(routers: number): RouterUnderTest {
  return {
    name: `cgn-${routers}`,
    events: "bytes",
    routers,
    commands(places) {
      const kvcached = `127.0.0.1:${places[0]!.spare}`;
      const uds = join(places[0]!.tokenizer, "kv.sock");
      const quiet = ["--log-level", "warn", "--set", `kv.index_dir=${places[0]!.tokenizer}/index`];
      const daemon = [process.execPath, CGN, "kvcached", ...quiet, "--listen", kvcached, "--uds", uds];
      return [daemon, ...places.map((each) => cgnRouter(each, ["--kvcached", `http://${kvcached}`]))];
    },
  };
}

function smg(name: string, policy: string): RouterUnderTest {
  return {
    name,
    events: undefined,
    routers: 1,
    commands: ([p]) => [
      [join(PEERS, "smg/bin/smg"), "launch", ...listen(p!), ...metrics(p!), "--log-level", "warn", "--policy", policy],
    ],
  };
}

const listen = ({ port, urls }: RouterPlaces) => [
  "--host",
  "127.0.0.1",
  "--port",
  String(port),
  "--worker-urls",
  ...urls,
];
const metrics = ({ admin }: RouterPlaces) => ["--prometheus-port", String(admin), "--prometheus-host", "127.0.0.1"];

function vllmRouter(name: string, policy: string, events: boolean): RouterUnderTest {
  const program = join(PEERS, "vllmr/bin/vllm-router");
  return {
    name,
    events: events ? "words" : undefined,
    routers: 1,
    commands([p]) {
      const sources = p!.urls.flatMap((url, i) => ["--kv-event-source", `${url}=tcp://127.0.0.1:${p!.events[i]}`]);
      const knows = events ? [...sources, "--kv-event-block-size", "16", "--kv-event-model", "m"] : [];
      const quiet = ["--log-level", "warning", "--worker-startup-check-interval", "1"];
      const port = ["--prometheus-port", String(p!.admin)];
      return [[program, ...listen(p!), "--policy", policy, ...port, ...quiet, ...knows]];
    },
  };
}

function sglangRouter(name: string, policy: string): RouterUnderTest {
  const program = join(PEERS, "sglr/bin/sglang-router");
  return {
    name,
    events: undefined,
    routers: 1,
    commands: ([p]) => [[program, "launch", ...listen(p!), "--policy", policy, ...metrics(p!), "--log-level", "warn"]],
  };
}

/** Every router that can be played, by name; besides them there is `oracle`. */
export const ROUTERS: readonly RouterUnderTest[] = [
  ours("cgn", "ttft"),
  ours("cgn-weighted", "weighted"),
  ours("cgn-least-loaded", "least_loaded"),
  ours("cgn-random", "random"),
  several(2),
  several(4),
  smg("smg-round-robin", "round_robin"),
  smg("smg-cache-aware", "cache_aware"),
  vllmRouter("vllm-router-cache-aware", "cache_aware", false),
  vllmRouter("vllm-router-kv-aware", "kv_aware", true),
  sglangRouter("sglang-router-cache-aware", "cache_aware"),
];
