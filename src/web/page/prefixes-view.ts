import type { Prefixes } from "./data.ts";
import { h, type View } from "./element.ts";
import { ago, bytes, count } from "./format.ts";
import { figures, row, section, table } from "./parts.ts";
import { requestHref } from "./state.ts";

/** What the last prompts have in common, and who has it. */
export function prefixesView(found: Prefixes | undefined, now: number): View {
  if (found === undefined) return h("p", { class: "soft" }, "Asking the router …");
  return section(
    "Hottest prefixes",
    `Beginnings that several of the last ${count(found.looked)} prompts share, those first that save most when they are cached. Prompts are never shown: a prefix is named by a hash, and by the newest request that begins so.`,
    table(
      "Hottest prefixes",
      [
        "Prefix",
        "Model",
        figures("Requests"),
        figures("Length"),
        "Newest request",
        "On engines (tokens, slowest tier)",
      ],
      found.prefixes.map((p) =>
        row(p.hash, [
          h("code", {}, p.hash),
          p.model,
          String(p.requests),
          `${p.longer ? "over " : ""}${bytes(p.bytes)}`,
          h("a", { href: requestHref(p.last.id) }, ago(p.last.atMs, now)),
          p.holders.length === 0
            ? h("span", { class: "tag warn" }, "in no cache")
            : h(
                "ul",
                { class: "holders" },
                p.holders.map(({ worker, tokens, tier }) =>
                  h("li", { key: worker }, [
                    `${worker}: ${count(tokens)} `,
                    h("span", { class: `tag tier-${tier}` }, tier),
                  ]),
                ),
              ),
        ]),
      ),
      found.looked === 0
        ? "No prompt could be matched yet. See Knowledge for what is missing, or send some from Chat."
        : "The last prompts have nothing in common.",
    ),
  );
}
