import { isWithoutAnswer } from "./chat-run.ts";
import type { Dashboard } from "./data.ts";
import { h, type View } from "./element.ts";
import { count, duration, percent } from "./format.ts";
import { type Actions, type ChatState, requestHref, type Turn } from "./state.ts";

/** A chat that says of each turn where it was answered, and how much of it was cached there. */
export function chatView(chat: ChatState, { status }: Dashboard, act: Actions): View {
  const models = status.models.map(({ model }) => model);
  const submit = (event: Event): void => {
    event.preventDefault();
    act.send();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  return h("section", { class: "card chat" }, [
    h("h2", {}, "Chat"),
    h(
      "p",
      { class: "soft" },
      "Goes through this router as any client's request, with the key of this page where keys are asked for. A second turn should find the first one in a cache.",
    ),
    h("div", { class: "row" }, [
      h("label", { for: "chat-model" }, "Model"),
      h(
        "select",
        {
          id: "chat-model",
          value: chosenModel(chat, models),
          onChange: (e: Event) => act.chat({ model: (e.currentTarget as HTMLSelectElement).value }),
        },
        models.map((model) => h("option", { key: model, value: model }, model)),
      ),
      h(
        "button",
        { type: "button", class: "quiet", disabled: chat.turns.length === 0 || chat.busy, onClick: act.clearChat },
        "New chat",
      ),
    ]),
    h(
      "ol",
      { class: "turns", "aria-label": "Turns", "aria-live": "polite", "aria-busy": chat.busy },
      chat.turns.map(turnView),
    ),
    h("form", { onSubmit: submit }, [
      h("label", { class: "hidden", for: "chat-text" }, "Message"),
      h("textarea", {
        id: "chat-text",
        rows: 3,
        value: chat.draft,
        placeholder: "Say something. Enter sends, Shift and Enter begins a line.",
        onInput: (e: Event) => act.chat({ draft: (e.currentTarget as HTMLTextAreaElement).value }),
        onKeyDown,
      }),
      h("div", { class: "row end" }, [
        chat.busy ? h("button", { type: "button", class: "quiet", onClick: act.stopChat }, "Stop") : null,
        h("button", { type: "submit", disabled: chat.busy || models.length === 0 }, "Send"),
      ]),
    ]),
  ]);
}

/** The one that was chosen while it is there, else the first. */
export const chosenModel = ({ model }: ChatState, models: readonly string[]): string =>
  models.includes(model) ? model : (models[0] ?? "");

function turnView(turn: Turn, i: number): View {
  const { role, text, thoughts, route, error } = turn;
  return h("li", { key: i, class: `turn ${role}` }, [
    h("span", { class: "who soft" }, role === "user" ? "You" : "Model"),
    thoughts === undefined || thoughts === ""
      ? null
      : h("details", {}, [h("summary", {}, "Thoughts"), h("div", { class: "text soft" }, thoughts)]),
    h("div", { class: "text" }, text === "" && error === undefined && role === "assistant" ? "…" : text),
    error === undefined ? null : h("p", { class: "note bad" }, error),
    isWithoutAnswer(turn) ? h("p", { class: "soft" }, "What you said here is not sent with later turns.") : null,
    route === undefined ? null : routeLine(route),
  ]);
}

function routeLine(route: NonNullable<Turn["route"]>): View {
  const { id, node, predicted, cached, prompt, generated, ttftMs, totalMs } = route;
  const share = (tokens: number | undefined): string =>
    tokens === undefined ? "–" : `${count(tokens)}${prompt ? ` (${percent(Math.min(1, tokens / prompt))})` : ""}`;
  const parts = [
    `answered by ${node}`,
    `prompt ${prompt === undefined ? "–" : count(prompt)} tokens`,
    `predicted cached ${share(predicted)}`,
    `really cached ${share(cached)}`,
    `first token after ${duration(ttftMs)}`,
    ...(generated === undefined || totalMs === undefined ? [] : [`${count(generated)} tokens in ${duration(totalMs)}`]),
  ];
  return h("p", { class: "route" }, [
    h("span", { class: `tag ${(predicted ?? 0) > 0 ? "ok" : "off"}` }, (predicted ?? 0) > 0 ? "prefix hit" : "no hit"),
    " ",
    ...parts.flatMap((part) => [h("span", { class: "whole" }, `${part} ·`), " "]),
    h("a", { href: requestHref(id) }, ["why there", h("span", { class: "hidden" }, `: request ${id}`)]),
  ]);
}
