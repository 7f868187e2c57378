import type { Dashboard, History } from "./data.ts";
import { h, type View } from "./element.ts";
import { engineCard } from "./engine-card.ts";
import { flowMap } from "./flow-map.ts";
import { duration, percent, rate } from "./format.ts";
import { figure, section } from "./parts.ts";
import type { Actions, State } from "./state.ts";
import { type Trouble, troublesOf } from "./troubles.ts";

/** More would push the engines off the screen. */
const SHOWN = 4;

/** Engines, what flows, and what is wrong. */
export function overviewView(state: State, data: Dashboard, act: Actions): View {
  const { workers } = data.status;
  const troubles = troublesOf(data);
  return h("div", { class: "stack" }, [
    troubleList(troubles.slice(0, SHOWN)),
    troubles.length > SHOWN
      ? h("p", {}, h("a", { href: "#/knowledge" }, `${troubles.length - SHOWN} more in Knowledge`))
      : null,
    headline(data, state.history),
    section(
      "Where requests go",
      "Each mark is a request on the engine that answers it, the newest first; the fuller, the more of its prompt was cached there. Open one to see why it went there; by keys, arrows go along a row.",
      flowMap(data),
    ),
    h("section", { "aria-labelledby": "engines" }, [
      h(
        "h2",
        { id: "engines" },
        `Engines (${workers.filter(({ takesRequests }) => takesRequests).length} of ${workers.length} take requests)`,
      ),
      workers.length === 0
        ? h("p", { class: "soft" }, "There are none yet. Name them by --engine, or in the configuration.")
        : h(
            "div",
            { class: "grid" },
            workers.map((worker) => engineCard(worker, data, state.logs[worker.id], act)),
          ),
    ]),
    data.can.posts.includes("/v1/cgn/reload") ? reloadRow(act) : null,
  ]);
}

/** What is wrong, with what to do about it. */
export function troubleList(troubles: readonly Trouble[]): View | null {
  if (troubles.length === 0) return null;
  return h(
    "ul",
    { class: "troubles", "aria-label": "What is wrong" },
    troubles.map(({ key, level, who, what, remedy }) =>
      h("li", { key, class: `note ${level}` }, [
        h("strong", {}, who),
        " ",
        what,
        remedy === undefined ? null : h("span", { class: "remedy" }, [" → ", remedy]),
      ]),
    ),
  );
}

function headline({ status, requests }: Dashboard, history: History | undefined): View {
  const last = (name: string): number | null => {
    // The newest point has only begun.
    const column = history?.columns[name] ?? [];
    for (let i = column.length - 1; i >= Math.max(0, column.length - 4); i--) if (column[i] != null) return column[i]!;
    return null;
  };
  const sum = (of: (model: (typeof status.models)[number]) => number): number =>
    status.models.reduce((total, model) => total + of(model), 0);
  const running = requests.filter(({ outcome }) => outcome === undefined).length;
  return h("dl", { class: "figures" }, [
    figure(
      "In flight",
      String(
        Math.max(
          running,
          sum(({ running: n }) => n),
        ),
      ),
      "Requests that are not over",
    ),
    figure(
      "Waiting",
      String(sum(({ queued, waitingForLoad }) => queued + waitingForLoad)),
      "For their turn, or for their model",
    ),
    figure("Requests/s", rate(last("requestsPerS"))),
    figure("TTFT p50", duration(last("ttftP50")), "Time to first token"),
    figure("TTFT p90", duration(last("ttftP90")), "Time to first token"),
    figure("ITL p50", duration(last("itlP50")), "Time between tokens"),
    figure("Tokens/s", rate(last("generatedPerS")), "Generated"),
    figure("Cached", percent(last("hitReal")), "Share of prompt tokens, as engines reported"),
    figure("Predicted", percent(last("hitPredicted")), "The same, as predicted"),
    figure("Policy", status.policy),
  ]);
}

function reloadRow(act: Actions): View {
  const asked = {
    text: "Read the configuration file again? Engines whose section changed are drained and started anew.",
    verb: "Reload",
    path: "/v1/cgn/reload",
    from: "reload",
  };
  return h("p", { class: "row" }, [
    h(
      "button",
      { type: "button", id: "reload", class: "quiet", onClick: () => act.ask(asked) },
      "Reload the configuration",
    ),
  ]);
}
