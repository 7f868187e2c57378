import type { ClientFleet, Target } from "./fleet.ts";

/** One thing that one client does against one model. */
export interface Case {
  readonly client: string;
  readonly name: string;
  readonly model: string;
  /** Throws what is wrong. */
  run(): Promise<void>;
}

/** How a case came out. */
export interface Row {
  readonly client: string;
  readonly name: string;
  readonly model: string;
  readonly ok: boolean;
  /** What was wrong. */
  readonly said?: string;
}

/** Cases of a client for each model that can do what they need. */
export function forTargets(
  client: string,
  targets: readonly Target[],
  cases: Readonly<Record<string, (target: Target) => Promise<void>>>,
): Case[] {
  return Object.entries(cases).flatMap(([name, run]) =>
    targets.map((target) => ({ client, name, model: target.model, run: () => run(target) })),
  );
}

/** Cases of a client against the model that does what it is told. */
export function scripted(
  client: string,
  { scripted: model }: ClientFleet,
  cases: Readonly<Record<string, () => Promise<void>>>,
): Case[] {
  return Object.entries(cases).map(([name, run]) => ({ client, name, model, run }));
}

/** A case that hangs is a failure of what it tests. */
const CASE_MS = 30_000;

/** Run cases one after the other. */
export async function runCases(cases: readonly Case[]): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { client, name, model, run } of cases) {
    let timer: NodeJS.Timeout | undefined;
    try {
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error(`no end within ${CASE_MS / 1000} s`)), CASE_MS);
      });
      await Promise.race([run(), late]);
      rows.push({ client, name, model, ok: true });
    } catch (e) {
      rows.push({ client, name, model, ok: false, said: e instanceof Error ? `${e.name}: ${e.message}` : String(e) });
    } finally {
      clearTimeout(timer);
    }
  }
  return rows;
}

/** @throws Error with `what` */
export function check(holds: unknown, what: string, seen?: unknown): asserts holds {
  if (!holds) throw new Error(seen === undefined ? what : `${what}; seen: ${JSON.stringify(seen)?.slice(0, 300)}`);
}

/** The error that `run` ends with. */
export async function errorOf(run: () => Promise<unknown>): Promise<Error & { status?: number }> {
  try {
    await run();
  } catch (e) {
    if (e instanceof Error) return e;
  }
  throw new Error("no error came");
}

export const QUESTION = [{ role: "user" as const, content: "Name a colour in one word." }];

/** What the model that is told what to do is told. */
export const told = (script: string) => [{ role: "user" as const, content: `Please [[${script}]].` }];

export const WEATHER = {
  name: "get_weather",
  description: "Weather of a city",
  schema: {
    type: "object" as const,
    properties: { city: { type: "string", enum: ["Paris", "Rome"] } },
    required: ["city"],
    additionalProperties: false,
  },
};
