import { type Asked, ask, decisionsOf, type HostPlan, LEASE_MS } from "./daemons.ts";
import type { Verdict } from "./judge.ts";
import { startLoad } from "./load.ts";
import type { Host } from "./network.ts";
import { pause, seconds, type World } from "./world.ts";

const RATE = { perSecond: 6 } as const;

const prompt = (name: string, n: number): string =>
  `${name} ${n}: the plates of that night are in the archive. `.repeat(8);

interface Held {
  readonly text: string;
  readonly node: string;
}

/** Ask once for each prompt, one after the other, so that nothing is in flight. */
async function askAll(router: HostPlan, texts: readonly string[]): Promise<readonly Asked[]> {
  const answers: Asked[] = [];
  for (const text of texts) answers.push(await ask(router, text));
  return answers;
}

/** What a router predicted of its last `count` requests, and what the engines reported. */
async function compared(router: HostPlan, count: number): Promise<{ readonly exact: number; readonly cached: number }> {
  const decisions = (await decisionsOf(router)).slice(0, count);
  const pairs = decisions.map(({ attempts, outcome }) => [
    attempts.at(-1)?.predictedCachedTokens ?? -1,
    outcome?.cachedTokens ?? 0,
  ]);
  return {
    exact: pairs.filter(([predicted, reported]) => predicted === reported).length,
    cached: pairs.filter(([, reported]) => reported! > 0).length,
  };
}

/** What one router had computed is predicted to the token by the other one, from three kvcacheds. */
export async function exactness(world: World, verdict: Verdict): Promise<void> {
  const [one, two] = world.routerPlans as [HostPlan, HostPlan];
  const texts = Array.from({ length: 12 }, (_, n) => prompt("Exact", n));
  const first = await askAll(one, texts);
  // Events of engines are on their way to kvcacheds and copies of them.
  await pause(1_500);
  const second = await askAll(two, texts);
  await pause(500);
  const third = await askAll(one, texts);
  const same = second.filter(({ node }, n) => node === first[n]!.node).length;
  const [atTwo, atOne] = [await compared(two, texts.length), await compared(one, texts.length)];
  verdict.note({ prompts: texts.length, same_engine: same, exact_at_other: atTwo.exact, exact_at_first: atOne.exact });
  for (const answers of [first, second, third])
    verdict.must(
      answers.every(({ end }) => end === "ok"),
      `a request failed: ${answers.map(({ said }) => said).join(" ")}`,
    );
  verdict.must(
    atTwo.exact === texts.length,
    `the other router predicted ${atTwo.exact} of ${texts.length} to the token`,
  );
  verdict.must(
    atOne.exact === texts.length,
    `the first router predicted ${atOne.exact} of ${texts.length} to the token`,
  );
  verdict.must(atTwo.cached === texts.length, `only ${atTwo.cached} of ${texts.length} were in a cache`);
}

/** One router is killed and the other one goes on; a new one in its place knows all prefixes from its snapshot. */
export async function joiningRouter(world: World, verdict: Verdict): Promise<void> {
  const [r1, r2] = world.routers as [Host, Host];
  const [one, two] = world.routerPlans as [HostPlan, HostPlan];
  const texts = Array.from({ length: 10 }, (_, n) => prompt("Joining", n));
  const first = await askAll(one, texts);
  const held: readonly Held[] = first.map(({ node }, n) => ({ text: texts[n]!, node }));
  const load = startLoad([one], RATE);
  world.kill(r2, "router");
  await pause(4_000);
  const since = performance.now();
  world.start(r2, "router");
  const ready = await world.when("three engines", [r2], (seen) => seen.ready === 3, { since });
  verdict.answered(await load.stop());
  const answers = await askAll(two, texts);
  const { exact, cached } = await compared(two, texts.length);
  const same = answers.filter(({ node }, n) => node === held[n]!.node).length;
  verdict.note({ ready_after_start_s: seconds(ready), prompts: texts.length, same_engine: same, exact });
  verdict.must(cached === texts.length, `only ${cached} of ${texts.length} were found in a cache`);
  verdict.must(exact === texts.length, `the new router predicted ${exact} of ${texts.length} to the token`);
  verdict.must(
    await world.when("both see both", [r1], (seen) => seen.ready === 3).then(() => true),
    "the first router lost engines",
  );
}

/** One router is stopped for longer than a lease: its own pause is nobody's silence, and all that it has in hand goes on. */
export async function frozenRouter(world: World, verdict: Verdict): Promise<void> {
  const [r1] = world.routers as [Host];
  const [one] = world.routerPlans as [HostPlan];
  const load = startLoad(world.routerPlans, RATE);
  const long = Array.from({ length: 4 }, (_, n) => {
    const text = prompt("Frozen", n);
    return ask(one, { text, stream: true, maxTokens: 400 });
  });
  await pause(2_000);
  const goOn = world.freeze(r1, "router");
  await pause(LEASE_MS + 2_000);
  const since = performance.now();
  goOn();
  const seen = await world.when("three engines", [r1], ({ ready }) => ready === 3, { since });
  await pause(2_000);
  verdict.answered(await load.stop());
  const ends = (await Promise.all(long)).map(({ end, said }) => `${end} ${said}`.trim());
  verdict.note({ stopped_s: seconds(LEASE_MS + 2_000), long_streams: ends.length, all_engines_after_s: seconds(seen) });
  verdict.must(
    ends.every((end) => end === "ok"),
    `a long stream did not end well: ${ends.join("; ")}`,
  );
}
