import { chartsView } from "./charts-view.ts";
import { chatView } from "./chat-view.ts";
import { h, type View } from "./element.ts";
import { knowledgeView } from "./knowledge-view.ts";
import { overviewView } from "./overview-view.ts";
import { prefixesView } from "./prefixes-view.ts";
import { decisionView, requestsView } from "./requests-view.ts";
import { type Actions, type Asked, PLACES, type PlaceName, type State } from "./state.ts";
import { troublesOf } from "./troubles.ts";

const TITLES: Readonly<Record<PlaceName, string>> = {
  overview: "Overview",
  requests: "Requests",
  charts: "Charts",
  prefixes: "Prefixes",
  knowledge: "Knowledge",
  chat: "Chat",
};

/** The whole page. */
export function shell(state: State, act: Actions): View {
  return h("div", { class: "page" }, [
    h("a", { class: "skip", href: "#main", onClick: toMain }, "To the content"),
    header(state, act),
    h("main", { id: "main", tabIndex: -1 }, [
      h("h1", { class: "hidden" }, `cgn: ${TITLES[state.place.name]}`),
      state.wantsKey === undefined ? null : keyForm(state.wantsKey, act),
      state.trouble === undefined || state.wantsKey !== undefined
        ? null
        : h("p", { class: "note bad", role: "alert" }, state.trouble),
      content(state, act),
    ]),
    h(
      "p",
      {
        class: `said${state.said.bad ? " bad" : ""}${state.said.text === "" ? " hidden" : ""}`,
        role: "status",
        "aria-live": "polite",
      },
      state.said.text,
    ),
    state.asked === undefined ? null : confirmation(state.asked, act),
  ]);
}

/** The hash says where in the page we are, so the browser cannot jump by it. */
function toMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function header({ place, data, theme, hasKey }: State, act: Actions): View {
  const troubles = data === undefined ? 0 : troublesOf(data).length;
  const node = data?.status.node;
  return h("header", { class: "top" }, [
    h("strong", { class: "brand" }, ["cgn", node === undefined ? null : h("span", { class: "soft" }, ` ${node}`)]),
    h(
      "nav",
      { "aria-label": "Parts of the page" },
      PLACES.map((name) =>
        h("a", { key: name, href: `#/${name}`, "aria-current": place.name === name ? "page" : undefined }, [
          TITLES[name],
          name === "knowledge" && troubles > 0
            ? h("span", { class: "badge" }, [String(troubles), h("span", { class: "hidden" }, " alarms")])
            : null,
        ]),
      ),
    ),
    h("div", { class: "tools" }, [
      hasKey ? h("button", { type: "button", class: "quiet", onClick: () => act.setKey("") }, "Forget key") : null,
      !hasKey && data?.status.access?.auth === true
        ? h("button", { type: "button", class: "quiet", onClick: () => act.enterKey() }, "Enter a key")
        : null,
      h("label", {}, [
        h("span", { class: "hidden" }, "Colours"),
        h(
          "select",
          {
            id: "theme",
            value: theme,
            onChange: (e: Event) => act.setTheme((e.currentTarget as HTMLSelectElement).value as State["theme"]),
          },
          [
            h("option", { value: "auto" }, "Auto"),
            h("option", { value: "light" }, "Light"),
            h("option", { value: "dark" }, "Dark"),
          ],
        ),
      ]),
    ]),
  ]);
}

function content(state: State, act: Actions): View | null {
  if (state.data === undefined)
    return state.wantsKey === undefined ? h("p", { class: "soft" }, "Asking the router …") : null;
  switch (state.place.name) {
    case "overview":
      return overviewView(state, state.data, act);
    case "requests":
      return state.place.id === undefined ? requestsView(state.data) : decisionView(state.place.id, state.decision);
    case "charts":
      return chartsView(state, act);
    case "prefixes":
      return prefixesView(state.prefixes, state.data.now);
    case "knowledge":
      return knowledgeView(state.data);
    case "chat":
      return chatView(state.chat, state.data, act);
  }
}

/** Called when the field comes, and with null when it goes: what wanted the key may be far below. */
const focus = (field: Element | null): void => (field as HTMLElement | null)?.focus();

function keyForm({ why, of }: NonNullable<State["wantsKey"]>, act: Actions): View {
  const submit = (event: Event): void => {
    event.preventDefault();
    const field = (event.currentTarget as HTMLFormElement).elements.namedItem("key") as HTMLInputElement;
    act.setKey(field.value.trim());
  };
  return h("form", { class: "card key", onSubmit: submit }, [
    h("h2", {}, of === "choice" ? "Your key" : "A key is needed"),
    h("p", { id: "key-why" }, why),
    h(
      "p",
      { class: "soft" },
      "One of scope metrics shows this page, one of scope admin also acts and reads logs (cgn key new --scopes admin). It is kept until this tab is closed.",
    ),
    h("div", { class: "row" }, [
      h("label", { for: "key" }, "Key"),
      h("input", {
        id: "key",
        name: "key",
        type: "password",
        autocomplete: "off",
        required: true,
        "aria-describedby": "key-why",
        ref: focus,
      }),
      h("button", { type: "submit" }, "Use it"),
      of !== "page" ? h("button", { type: "button", class: "quiet", onClick: act.withoutKey }, "Not now") : null,
    ]),
  ]);
}

/** A native dialog: it keeps the focus inside, and Escape closes it. */
function confirmation({ text, verb }: Asked, act: Actions): View {
  const open = (dialog: Element | null): void => {
    const element = dialog as HTMLDialogElement | null;
    if (element !== null && !element.open) element.showModal();
  };
  return h("dialog", { ref: open, "aria-labelledby": "asked", onCancel: () => act.answer(false) }, [
    h("p", { id: "asked" }, text),
    h("div", { class: "row end" }, [
      h("button", { type: "button", class: "quiet", onClick: () => act.answer(false) }, "Cancel"),
      h("button", { type: "button", class: "danger", onClick: () => act.answer(true) }, verb),
    ]),
  ]);
}
