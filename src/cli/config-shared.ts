import { SHARED_KEYS } from "../config/shared-keys.ts";
import { CgnError } from "../core/errors.ts";
import { ADMIN_OPTIONS, askAdmin, postAdmin } from "./admin-client.ts";
import type { CliContext, Command, Values } from "./command.ts";

const PATH = "/v1/cgn/config";

/** What a router tells of shared settings. */
interface Shared {
  readonly source: string;
  readonly shared: Readonly<Record<string, string>>;
  readonly holds: object;
  readonly problems?: readonly { readonly key: string; readonly problem: string }[];
}

const OPTIONS = { ...ADMIN_OPTIONS, json: { type: "boolean", about: "print JSON" } } as const;

/** `cgn config set KEY=VALUE…`: for all routers of the cluster. */
export const configSetCommand: Command = {
  name: "config set",
  about: `set what all routers of a cluster share, in etcd; it wins over their files at once. Keys: ${SHARED_KEYS.join(", ")}`,
  examples: [
    "cgn config set router.score_weights.power=0.3",
    "cgn config set router.policy=weighted router.admission.max_queue=500",
    "cgn config set router.admission.ttft_slo=none",
  ],
  positionals: [
    { name: "KEY=VALUE", about: "a key and its value; none takes a limit away", required: true, variadic: true },
  ],
  options: OPTIONS,
  async run({ options, positionals }, cli) {
    const pairs = positionals.map((text): readonly [string, string] => {
      const cut = text.indexOf("=");
      if (cut > 0 && cut < text.length - 1) return [text.slice(0, cut), text.slice(cut + 1)];
      const message = `Cannot set "${text}": it is no KEY=VALUE. Write for example router.policy=weighted`;
      throw new CgnError("BAD_INVOCATION", message, { text });
    });
    return change(pairs, options, cli);
  },
};

/** `cgn config unset KEY…`: files count again. */
export const configUnsetCommand: Command = {
  name: "config unset",
  about: "take back cgn config set: each router's own file counts again",
  examples: ["cgn config unset router.policy", "cgn config unset router.score_weights.kv router.score_weights.power"],
  positionals: [{ name: "KEY", about: "as cgn config list shows it", required: true, variadic: true }],
  options: OPTIONS,
  run: ({ options, positionals }, cli) =>
    change(
      positionals.map((key) => [key, ""]),
      options,
      cli,
    ),
};

/** `cgn config list`: what is shared. */
export const configListCommand: Command = {
  name: "config list",
  about: "print the settings that all routers of a cluster share",
  examples: ["cgn config list", "cgn config list --json"],
  options: OPTIONS,
  async run({ options }, cli) {
    print(JSON.parse(await askAdmin(PATH, options, cli)) as Shared, options, cli);
    return 0;
  },
};

async function change(
  pairs: readonly (readonly [string, string])[],
  options: Values,
  cli: CliContext,
): Promise<number> {
  const query = new URLSearchParams(pairs.map(([key, value]) => [key, value]));
  print(JSON.parse(await postAdmin(`${PATH}?${query}`, options, cli)) as Shared, options, cli);
  return 0;
}

function print(answer: Shared, options: Values, cli: CliContext): void {
  if (options["json"] === true) {
    cli.out(JSON.stringify(answer, null, 2));
    return;
  }
  const entries = Object.entries(answer.shared);
  if (entries.length === 0) cli.out(`nothing is shared (${answer.source}): each router goes by its own file`);
  for (const [key, value] of entries) cli.out(`${key} = ${value}`);
  for (const { key, problem } of answer.problems ?? []) cli.err(`${key} does not count: ${problem}`);
}
