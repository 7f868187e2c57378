import type { ComponentChildren } from "preact";
import { h, type View } from "./element.ts";
import { percent } from "./format.ts";

/** A figure with its name. */
export function figure(name: string, value: ComponentChildren, about?: string): View {
  return h("div", { class: "figure", title: about }, [h("dt", {}, name), h("dd", {}, value)]);
}

/** A share as a bar with its number; the number is what is read out. */
export function bar(share: number | undefined, kind = ""): View {
  const width = Math.max(0, Math.min(1, share ?? 0));
  return h("span", { class: `bar ${kind}` }, [
    h("svg", { "aria-hidden": "true", viewBox: "0 0 100 6", preserveAspectRatio: "none" }, [
      h("rect", { class: "all", width: 100, height: 6, rx: 3 }),
      share === undefined ? null : h("rect", { class: "part", width: width * 100, height: 6, rx: 3 }),
    ]),
    h("span", { class: "num" }, percent(share)),
  ]);
}

const STATE_WORDS: Readonly<Record<string, string>> = {
  ready: "ok",
  starting: "busy",
  draining: "warn",
  down: "bad",
  unloaded: "off",
  asleep: "off",
};

/** The state in a word and a colour: the colour alone says nothing. */
export function stateTag(state: string, kind = STATE_WORDS[state] ?? "off"): View {
  return h("span", { class: `tag ${kind}` }, state);
}

/** A table that may be wider than the screen: it scrolls, by keys too. */
export function table(name: string, head: readonly ComponentChildren[], rows: readonly View[], empty: string): View {
  if (rows.length === 0) return h("p", { class: "soft" }, empty);
  return h("div", { class: "scroll", role: "region", "aria-label": name, tabIndex: 0 }, [
    h("table", {}, [
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((cell) => h("th", { scope: "col" }, cell)),
        ),
      ),
      h("tbody", {}, rows),
    ]),
  ]);
}

/** A row: its first cell is its head. */
export function row(key: string, cells: readonly ComponentChildren[], kind?: string): View {
  const [first, ...rest] = cells;
  return h("tr", { key, class: kind }, [h("th", { scope: "row" }, first), ...rest.map((cell) => h("td", {}, cell))]);
}

export function section(title: string, about: string, body: ComponentChildren, kind = "card"): View {
  return h("section", { class: kind }, [
    h("h2", {}, title),
    about === "" ? null : h("p", { class: "soft" }, about),
    body,
  ]);
}
