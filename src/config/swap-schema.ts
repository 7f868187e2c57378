import { z } from "zod";
import { about, duration, flag, textList } from "./schema-fields.ts";

/** `[swap.groups."NAME"]`. Names and defaults are llama-swap's. */
const groupSchema = z.strictObject({
  members: about(
    textList().prefault([]),
    "Models of the group. An engine whose `group` is the group's name is a member too",
  ),
  swap: flag("One member at a time. False: the members may be loaded together, also on the same GPUs", true),
  exclusive: flag("Loading a member unloads the members of all other groups", true),
  persistent: flag("Other groups do not unload the members", false),
});

/** `[swap]`: models that are loaded when requests wait for them. */
export const swapSchema = z.strictObject({
  min_residency: duration(
    "How long a loaded model stays at least, whoever waits for its place; keeps alternating requests from swapping all the time",
    5_000,
  ),
  queue_timeout: duration(
    "How long a request waits for its model to be loaded, or to come back from a reload; then it is answered 503 (the request may shorten it: `x-cgn-deadline-ms`, a number of milliseconds)",
    300_000,
  ),
  keep_alive: duration(
    "How often a streaming client that waits is sent a comment. Before the first one an error has its own status, after it errors are events",
    5_000,
  ),
  memory_gib: about(
    z.number().positive().optional(),
    "What the loaded engines together may take, by their `memory_gib`; the longest unused are unloaded to make room",
    { unit: "GiB", defaultText: "no budget" },
  ),
  preload: about(textList().prefault([]), "Models that are loaded at the start, in this order"),
  groups: about(
    z.record(z.string(), groupSchema).prefault({}),
    "Models that take turns, or may be loaded together: `[swap.groups.NAME]`",
  ),
});
