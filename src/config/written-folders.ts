import type { KeyPath } from "./key-path.ts";
import { formatKeyPath } from "./key-path.ts";
import { isWritten, type LoadContext, originOf } from "./load-context.ts";

/** A folder or Unix socket that was written in the configuration, so that it must be usable where it is used. */
export interface WrittenFolder {
  /** Dotted, for example `agent.state_dir`. */
  readonly key: string;
  /** Where it was written: `cgn.toml:4:1`, a variable or a flag. */
  readonly place: string;
  readonly path: string;
  readonly sort: "folder" | "socket";
}

const KEYS: readonly (readonly [KeyPath, WrittenFolder["sort"]])[] = [
  [["agent", "state_dir"], "folder"],
  [["agent", "log_dir"], "folder"],
  [["cluster", "data_dir"], "folder"],
  [["kv", "index_dir"], "folder"],
  [["kv", "uds"], "socket"],
  [["agent", "kv_uds"], "socket"],
];

/** The folders and sockets that somebody wrote; defaults are not among them, they fall back by themselves. */
export function writtenFolders(ctx: LoadContext): readonly WrittenFolder[] {
  return KEYS.flatMap(([path, sort]) => {
    const value = path.reduce<unknown>(
      (at, step) => (at as Record<string, unknown> | undefined)?.[step],
      ctx.layers.tree,
    );
    if (!isWritten(ctx, path) || typeof value !== "string") return [];
    // Where both are written, kvcached listens on its own, and the agent's is somebody else's to make.
    if (path[1] === "kv_uds" && isWritten(ctx, ["kv", "uds"])) return [];
    return [{ key: formatKeyPath(path), place: placeOf(ctx, path), path: value, sort }];
  });
}

function placeOf(ctx: LoadContext, path: KeyPath): string {
  const origin = originOf(ctx, path);
  if (origin?.from === "file") return `${origin.file}:${origin.line}:${origin.column}`;
  if (origin?.from === "environment") return origin.variable;
  return origin?.from === "flag" ? origin.flag : "the configuration";
}
