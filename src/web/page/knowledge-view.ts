import { type Dashboard, type Source, sourcesOf, type TruthWindow } from "./data.ts";
import { h, type View } from "./element.ts";
import { count, duration, percent } from "./format.ts";
import { troubleList } from "./overview-view.ts";
import { figures, type Row, row, section, stateTag, table } from "./parts.ts";
import { troublesOf } from "./troubles.ts";

const STATE_KINDS: Readonly<Record<string, string>> = {
  live: "ok",
  connecting: "busy",
  replaying: "busy",
  gap: "warn",
  silent: "bad",
  failed: "bad",
};

/** How far predictions can be believed, and why not further. */
export function knowledgeView(data: Dashboard): View {
  const troubles = troublesOf(data);
  const sources = sourcesOf(data.status);
  return h("div", { class: "stack" }, [
    section(
      "Alarms",
      "",
      troubles.length === 0 ? h("p", { class: "soft" }, "Nothing is wrong.") : troubleList(troubles),
    ),
    section(
      "Sources",
      "What is known of each engine's cache. Events are the engine's own word, block by block; history is what was sent to it.",
      table(
        "Sources of knowledge",
        [
          "Engine",
          "Source",
          "State",
          figures("Blocks"),
          figures("Events"),
          figures("Gaps"),
          "Tokenizer parity",
          "Generated tokens",
          ...(sources.some((source) => moreOf(source) !== "") ? ["More"] : []),
        ],
        sources.map(sourceRow),
        "No engine is followed yet.",
      ),
    ),
    section(
      "Are predictions true?",
      "Requests whose engine said how many tokens were cached. Late: an event that came after the request was sent explains the difference.",
      table(
        "Predictions",
        [
          "Engine",
          figures("Over"),
          ...["Requests", "Exact", "Late", "Unexplained", "Predicted tokens", "Reported tokens"].map(figures),
        ],
        sources.flatMap((source) =>
          (source.truth ?? []).filter(({ requests }) => requests > 0).map((window) => truthRow(source, window)),
        ),
        "No engine has told a figure in the last hour.",
      ),
    ),
  ]);
}

const moreOf = ({ detail, canonicity }: Source): string =>
  [detail, canonicity?.state === "off" ? canonicity.detail : ""].filter((part) => part !== "").join(" ");

function sourceRow(source: Source): Row {
  const { worker, type, state, blocks, events, gaps, parity, canonicity, origin } = source;
  const more = moreOf(source);
  return row(worker, [
    worker,
    `${type}${origin === undefined ? "" : ` (by ${origin})`}`,
    stateTag(state, STATE_KINDS[state]),
    type === "events" ? count(blocks) : "–",
    type === "events" ? count(events) : "–",
    type === "events" ? count(gaps) : "–",
    parity === "equal"
      ? stateTag("equal", "ok")
      : parity === "unknown"
        ? stateTag("not known", "off")
        : h("span", { class: "wrap" }, [stateTag("differs", "bad"), ` ${parity.replace(/^differs /, "")}`]),
    canonicity === undefined
      ? "–"
      : `${canonicity.state}${canonicity.uncountedBlocks > 0 ? `, ${count(canonicity.uncountedBlocks)} blocks do not count` : ""}`,
    more === "" ? null : h("span", { class: "wrap" }, more),
  ]);
}

function truthRow({ worker }: Source, window: TruthWindow): Row {
  const { seconds, requests, exact, inFlight, unexplained, predictedTokens, reportedTokens } = window;
  return row(`${worker} ${seconds}`, [
    worker,
    duration(seconds * 1000),
    count(requests),
    `${count(exact)} (${percent(exact / requests)})`,
    count(inFlight),
    count(unexplained),
    count(predictedTokens),
    count(reportedTokens),
  ]);
}
