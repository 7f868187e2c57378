import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { workerId } from "../core/ids.ts";
import { SILENT_LOG } from "../core/log.ts";
import { sampleWorker } from "../core/worker.case.ts";
import type { EngineFigures } from "../core/worker.ts";
import { CLOCK, until } from "../process/testing/harness.ts";
import { startFigures } from "./figures.ts";
import { headroomOf, type PowerSource, sumPower } from "./power.ts";
import { nvidiaPower, parseNvidiaPower } from "./power-nvidia.ts";
import { raplPower } from "./power-rapl.ts";
import { redfishPower } from "./power-redfish.ts";

const dir = mkdtempSync(join(tmpdir(), "cgn-power-"));
const ends: (() => unknown)[] = [() => rmSync(dir, { recursive: true })];
afterAll(async () => {
  for (const end of ends.splice(0)) await end();
});

describe("sumPower(), headroomOf()", () => {
  it("sumPower() adds draws and limits, and knows no limit where one is missing", () => {
    expect(sumPower([])).toBeUndefined();
    expect(
      sumPower([
        { watts: 100, limitWatts: 300 },
        { watts: 50, limitWatts: 100 },
      ]),
    ).toEqual({ watts: 150, limitWatts: 400 });
    expect(sumPower([{ watts: 100, limitWatts: 300 }, { watts: 50 }])).toEqual({ watts: 150 });
  });

  it("headroomOf() is the share that is left, within 0 and 1", () => {
    expect(headroomOf({ watts: 75, limitWatts: 300 })).toBe(0.75);
    expect(headroomOf({ watts: 320, limitWatts: 300 })).toBe(0);
    expect(headroomOf({ watts: 75 })).toBeUndefined();
  });
});

describe("nvidia-smi", () => {
  it("parseNvidiaPower() reads each GPU, and leaves out those that tell nothing", () => {
    const text = "0, 61.50, 700.00\n1, 68, 700\n2, [N/A], [N/A]\n3, 40.10, [Not Supported]\nNo devices were found\n";
    expect([...parseNvidiaPower(text)]).toEqual([
      [0, { watts: 61.5, limitWatts: 700 }],
      [1, { watts: 68, limitWatts: 700 }],
      [3, { watts: 40.1 }],
    ]);
  });

  it("nvidiaPower() runs the program of the PATH, and says where there is none", async () => {
    const bin = join(dir, "nvidia-smi");
    writeFileSync(
      bin,
      '#!/bin/sh\ncase "$1" in --query-gpu=index,power.draw,power.limit) echo "0, 100.00, 400.00";; esac\n',
    );
    chmodSync(bin, 0o755);
    const found = await nvidiaPower({ PATH: `${dir}:/usr/bin:/bin` }).read();
    expect([...found.gpus]).toEqual([[0, { watts: 100, limitWatts: 400 }]]);
    await expect(nvidiaPower({ PATH: join(dir, "none") }).read()).rejects.toThrow(/no nvidia-smi/);
  });
});

describe("RAPL", () => {
  it("raplPower() takes the difference of two readings, over the counter's end too", async () => {
    const root = join(dir, "powercap");
    const put = (name: string, file: string, value: number | string): void => {
      mkdirSync(join(root, name), { recursive: true });
      writeFileSync(join(root, name, file), `${value}\n`);
    };
    for (const name of ["intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"]) put(name, "energy_uj", 999_000_000);
    for (const name of ["intel-rapl:0", "intel-rapl:1"]) {
      put(name, "max_energy_range_uj", 1_000_000_000);
      put(name, "constraint_0_power_limit_uw", 150_000_000);
    }
    let now = 0;
    const source = raplPower({ now: () => now, wall: () => 0, after: () => () => {} }, root);
    expect((await source.read()).host).toBeUndefined();
    now = 2_000;
    put("intel-rapl:0", "energy_uj", 199_000_000);
    put("intel-rapl:1", "energy_uj", 99_000_000);
    // 200 J and 100 J in 2 s.
    expect((await source.read()).host).toEqual({ watts: 150, limitWatts: 300 });
    await expect(raplPower(CLOCK, join(dir, "none")).read()).rejects.toThrow(/there is no/);
  });
});

/** A service with these resources; it asks for HTTP Basic. */
async function service(resources: Readonly<Record<string, object>>): Promise<string> {
  const server = createServer((req, res) => {
    const given = req.headers.authorization === `Basic ${Buffer.from("ops:geheim").toString("base64")}`;
    const found = given ? resources[req.url ?? ""] : undefined;
    res.writeHead(found === undefined ? (given ? 404 : 401) : 200, { "content-type": "application/json" });
    res.end(JSON.stringify(found ?? {}));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  ends.unshift(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const link = (path: string): object => ({ "@odata.id": path });
const chassis = "/redfish/v1/Chassis";
const login = { user: "ops", password: "geheim" };

describe("Redfish", () => {
  // Figures of DMTF's mockup public-rackmount1.
  const control = {
    PowerControl: [
      {
        Name: "System Input Power",
        PowerConsumedWatts: 344,
        PowerCapacityWatts: 800,
        PowerLimit: { LimitInWatts: 500 },
      },
    ],
  };

  it("redfishPower() finds each chassis' power, by either resource", async () => {
    const url = await service({
      [chassis]: { Members: [link(`${chassis}/1U`), link(`${chassis}/GPU`), link(`${chassis}/Empty`)] },
      [`${chassis}/1U`]: { Power: link(`${chassis}/1U/Power`) },
      [`${chassis}/1U/Power`]: control,
      [`${chassis}/GPU`]: { EnvironmentMetrics: link(`${chassis}/GPU/EnvironmentMetrics`) },
      [`${chassis}/GPU/EnvironmentMetrics`]: { PowerWatts: { Reading: 1_000 }, PowerLimitWatts: { SetPoint: 4_000 } },
      [`${chassis}/Empty`]: {},
    });
    expect((await redfishPower({ url, ...login }).read()).host).toEqual({ watts: 1_344, limitWatts: 4_500 });
    const one = await redfishPower({ url: `${url}${chassis}/1U/Power`, ...login }).read();
    expect(one.host).toEqual({ watts: 344, limitWatts: 500 });
  });

  it("redfishPower() says what the service answers, and follows no link elsewhere", async () => {
    const url = await service({ [chassis]: { Members: [link("http://evil/redfish/v1/x")] } });
    await expect(redfishPower({ url }).read()).rejects.toThrow(/answers 401/);
    await expect(redfishPower({ url, ...login }).read()).rejects.toThrow(/tells no power/);
  });
});

describe("startFigures()", () => {
  it("startFigures() gives each engine its GPUs' head-room, the host's where there is none, and its free KV space", async () => {
    const metrics = createServer((_req, res) => res.end("vllm:kv_cache_usage_perc{} 0.31\n"));
    await new Promise<void>((done) => metrics.listen(0, "127.0.0.1", done));
    ends.unshift(() => metrics.close());
    const url = `http://127.0.0.1:${(metrics.address() as AddressInfo).port}`;
    const gpus = new Map([
      [0, { watts: 100, limitWatts: 400 }],
      [1, { watts: 300, limitWatts: 400 }],
    ]);
    const source: PowerSource = { name: "redfish", read: async () => ({ gpus, host: { watts: 90, limitWatts: 100 } }) };
    const broken: PowerSource = { name: "rapl", read: () => Promise.reject(new Error("no")) };
    const workers = [sampleWorker("a", { url }), sampleWorker("b", { url }), sampleWorker("c", { url, state: "down" })];
    const given = new Map<string, readonly number[] | undefined>([
      ["a", [1]],
      ["b", undefined],
      ["c", [7]],
    ]);
    const told = new Map<string, EngineFigures | undefined>();
    const figures = startFigures({
      agent: {
        status: () => workers.map((worker) => ({ worker }) as never),
        setFigures: (id, each) => void told.set(id, each),
        apiKey: () => undefined,
        gpusOf: (id) => given.get(id),
      },
      metrics: { listen: { host: "", port: 0 }, scrapeIntervalMs: 60_000, scrapeTargets: [] },
      clock: CLOCK,
      log: SILENT_LOG,
      env: {},
      sources: [broken, source],
    });
    await until("all are told", () => told.size === 3, 20_000);
    figures.close();
    expect(told.get(workerId("a"))).toEqual({ powerHeadroom: 0.25, powerWatts: 300, kvFree: 0.7 });
    expect(told.get(workerId("b"))).toEqual({ powerHeadroom: 0.5, powerWatts: 400, kvFree: 0.7 });
    expect(told.get(workerId("c"))).toEqual({ powerHeadroom: 0.1, powerWatts: 90 });
  });
});
