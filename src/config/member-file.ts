import { z } from "zod";
import { CgnError, type Problem } from "../core/errors.ts";
import { nodeId } from "../core/ids.ts";
import { type Member, memberKey, type NodeMark } from "../core/membership.ts";
import { formatKeyPath, type KeyPath } from "./key-path.ts";
import { problemsError } from "./problems.ts";
import { type KeyPlace, parseToml } from "./toml.ts";

const url = z
  .string()
  .refine(isAddress, { error: "is no address. Write http://HOST:PORT, https://HOST:PORT or unix:PATH" });
const name = z.string().min(1);

const fileSchema = z.strictObject({
  members: z
    .array(
      z.strictObject({
        kind: z.enum(["agent", "router", "kvcached"]),
        url,
        id: name.optional(),
        node: name.optional(),
        labels: z.record(z.string(), z.string()).optional(),
      }),
    )
    .default([]),
  marks: z.record(z.string(), z.enum(["cordoned", "draining"])).default({}),
});

/**
 * Read `[cluster].static_file`: TOML with `[[members]]` (`kind`, `url`, and where wanted `id`, `node`, `labels`) and `[marks]`
 * (`NODE = "cordoned"` or `"draining"`), or the same in JSON. A member without `node` is of the host that its URL names; without `id` it
 * is called as its URL.
 * @throws CgnError CONFIG_INVALID with the place of what is wrong
 */
export function readMemberFile(
  text: string,
  file: string,
): { readonly members: readonly Member[]; readonly marks: ReadonlyMap<string, NodeMark> } {
  const { value, places } = text.trimStart().startsWith("{") ? readJson(text, file) : parseToml(text, file);
  const parsed = fileSchema.safeParse(plain(value));
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => problemOf(issue, file, places));
    throw problemsError(file, problems);
  }
  const members = parsed.data.members.map(({ kind, url: at, id, node, labels }): Member => {
    const host = at.startsWith("unix:") ? "localhost" : new URL(at).hostname;
    return {
      kind,
      id: id ?? at,
      node: nodeId(node ?? host),
      url: at.replace(/\/+$/, ""),
      epoch: 0,
      ...(labels === undefined ? {} : { labels }),
    };
  });
  requireOnce(members, file, places);
  return { members, marks: new Map(Object.entries(parsed.data.marks)) };
}

function isAddress(text: string): boolean {
  if (text.startsWith("unix:")) return text.length > "unix:".length;
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

type Places = ReadonlyMap<string, KeyPlace>;

function readJson(text: string, file: string): { readonly value: unknown; readonly places: Places } {
  try {
    return { value: JSON.parse(text), places: new Map() };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const problems = [{ severity: "error", path: "", file, problem: `not JSON: ${why}` } as const];
    throw new CgnError("CONFIG_INVALID", `Cannot read ${file}: it is not JSON: ${why}. Mend it, or write TOML`, {
      problems,
    });
  }
}

/** Tables of the reader have no prototype, which zod takes for no object. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each)]));
}

function problemOf(issue: z.core.$ZodIssue, file: string, places: Places): Problem {
  const unknown = issue.code === "unrecognized_keys" ? issue.keys[0] : undefined;
  const path = [...(issue.path as KeyPath), ...(unknown === undefined ? [] : [unknown])];
  const problem = unknown === undefined ? lowerFirst(issue.message) : "there is no such key here";
  return { severity: "error", path: formatKeyPath(path), file, ...placeOf(path, places), problem };
}

/** Of the key, or of the nearest table around it. */
function placeOf(path: KeyPath, places: Places): { line?: number; column?: number } {
  for (let length = path.length; length > 0; length--) {
    const place = places.get(formatKeyPath(path.slice(0, length)));
    if (place !== undefined) return { ...place.key };
  }
  return {};
}

function requireOnce(members: readonly Member[], file: string, places: Places): void {
  const seen = new Set<string>();
  for (const [index, member] of members.entries()) {
    const key = memberKey(member);
    if (seen.has(key)) {
      const path = ["members", index];
      const problem = `the ${member.kind} "${member.id}" is listed twice`;
      throw problemsError(file, [
        {
          severity: "error",
          path: formatKeyPath(path),
          file,
          ...placeOf(path, places),
          problem,
          remedy: "Give each an id of its own",
        },
      ]);
    }
    seen.add(key);
  }
}

const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);
