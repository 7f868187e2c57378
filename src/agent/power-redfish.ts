import { request } from "undici";
import { type PowerReading, type PowerSource, sumPower } from "./power.ts";

export interface RedfishOptions {
  /** The service, such as `https://10.0.0.9`, or one resource of it below `/redfish/`. */
  readonly url: string;
  readonly user?: string;
  readonly password?: string;
}

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 1024 * 1024;
const CHASSIS = "/redfish/v1/Chassis";

type Json = Readonly<Record<string, unknown>>;

/**
 * The host by its management controller: DMTF's Redfish, `PowerControl` of each chassis' `Power` (DSP0268, Power 1.x), or
 * `PowerWatts` and `PowerLimitWatts` of its `EnvironmentMetrics` (which replaces it from 2020.4 on). HTTP Basic, which every service has.
 */
export function redfishPower({ url, user, password = "" }: RedfishOptions): PowerSource {
  const base = new URL(url);
  const headers: Record<string, string> = { accept: "application/json" };
  if (user !== undefined) headers["authorization"] = `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  const get = (path: string): Promise<Json> => ask(new URL(path, base.origin), headers);
  return {
    name: "redfish",
    async read() {
      const paths = base.pathname.startsWith("/redfish/") ? [base.pathname] : await powerPaths(get);
      const readings: PowerReading[] = [];
      for (const path of paths) readings.push(...readPower(await get(path)));
      const host = sumPower(readings);
      if (host === undefined) throw new Error(`${base.origin} tells no power`);
      return { gpus: new Map(), host };
    },
  };
}

/** Where each chassis tells its power. */
async function powerPaths(get: (path: string) => Promise<Json>): Promise<string[]> {
  const { Members: members } = await get(CHASSIS);
  const paths: string[] = [];
  for (const member of listOf(members)) {
    const chassis = await get(linkOf(member) ?? CHASSIS);
    const path = linkOf(chassis["Power"]) ?? linkOf(chassis["EnvironmentMetrics"]);
    if (path !== undefined) paths.push(path);
  }
  return paths;
}

/** Of either resource. */
export function readPower(resource: Json): PowerReading[] {
  const control = listOf(resource["PowerControl"]).map((each) =>
    readingOf(each["PowerConsumedWatts"], [objectOf(each["PowerLimit"])["LimitInWatts"], each["PowerCapacityWatts"]]),
  );
  const limit = objectOf(resource["PowerLimitWatts"]);
  const sensor = readingOf(objectOf(resource["PowerWatts"])["Reading"], [limit["SetPoint"], limit["AllowableMax"]]);
  // One chassis tells its whole first; further controls are parts of it.
  return [control.find((each) => each !== undefined) ?? sensor].filter((each) => each !== undefined);
}

function readingOf(watts: unknown, limits: readonly unknown[]): PowerReading | undefined {
  if (typeof watts !== "number" || !(watts >= 0)) return undefined;
  const limitWatts = limits.find((each): each is number => typeof each === "number" && each > 0);
  return { watts, ...(limitWatts === undefined ? {} : { limitWatts }) };
}

async function ask(url: URL, headers: Record<string, string>): Promise<Json> {
  const { statusCode, body } = await request(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) });
  let text = "";
  for await (const chunk of body) {
    text += String(chunk);
    if (text.length > MAX_BYTES) throw new Error(`${url} answers without end`);
  }
  if (statusCode !== 200) throw new Error(`${url} answers ${statusCode}`);
  return objectOf(JSON.parse(text));
}

const objectOf = (value: unknown): Json =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
const listOf = (value: unknown): Json[] => (Array.isArray(value) ? value.map(objectOf) : []);
const linkOf = (value: unknown): string | undefined => {
  const path = objectOf(value)["@odata.id"];
  return typeof path === "string" && path.startsWith("/redfish/") ? path : undefined;
};
