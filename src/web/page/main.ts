import { render } from "preact";
import { storedKey } from "./api.ts";
import { App } from "./app.ts";
import { shell } from "./shell-view.ts";
import { type Place, requestHref } from "./state.ts";

const THEME = "cgn-theme";

/** Storage may be forbidden; the page works without. */
function storedTheme(): "auto" | "light" | "dark" {
  try {
    const theme = localStorage.getItem(THEME);
    return theme === "light" || theme === "dark" ? theme : "auto";
  } catch {
    return "auto";
  }
}

const root = document.getElementById("app")!;
root.textContent = "";
let drawing = false;
/** Where the page was when it was drawn last. */
let shown: Place;
/** What opened the dialog that stands: it gets the focus back. */
let opener: { readonly id: string; readonly card: Element | null } | undefined;

const app = new App({ theme: storedTheme(), hasKey: storedKey() !== "" }, () => {
  if (drawing) return;
  drawing = true;
  // Several changes at once are drawn once.
  requestAnimationFrame(() => {
    drawing = false;
    draw();
  });
});

function draw(): void {
  const { theme } = app.state;
  if (theme === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset["theme"] = theme;
  try {
    localStorage.setItem(THEME, theme);
  } catch {}
  const node = app.state.data?.status.node;
  document.title = node === undefined ? "cgn" : `cgn ${node}: ${app.state.place.name}`;
  const was = document.activeElement;
  const around = was?.closest("article, form");
  const { asked } = app.state;
  if (asked !== undefined)
    opener ??= { id: asked.from, card: document.getElementById(asked.from)?.closest("article") ?? null };
  render(shell(app.state, app), root);
  if (app.state.place !== shown) keepFocus(shown, app.state.place);
  // "Drain" becomes "Uncordon", "Stop" goes with the answer's end.
  else if (asked === undefined && opener !== undefined) refocus(opener.card, document.getElementById(opener.id));
  else if (was?.isConnected === false) refocus(around);
  shown = app.state.place;
  if (asked === undefined) opener = undefined;
}

/** What had the focus is gone: on to the element that is meant, else to what stands in its place. */
function refocus(around: Element | null | undefined, meant: HTMLElement | null = null): void {
  if (document.activeElement !== null && document.activeElement !== document.body) return;
  const next = around?.isConnected === true ? around.querySelector<HTMLElement>("textarea, button:enabled, a") : null;
  (meant ?? next ?? document.getElementById("main"))?.focus();
}

/** A link that was followed is gone with its view, and the focus with it: back to where one came from, else to the new content. */
function keepFocus(before: Place, { id }: Place): void {
  const focused = document.activeElement;
  if (focused !== null && focused !== document.body) return;
  const left = before.id === undefined || id !== undefined ? undefined : requestHref(before.id);
  const link = left === undefined ? null : document.querySelector<HTMLElement>(`main a[href="${left}"]`);
  (link ?? document.getElementById("main"))?.focus();
}

shown = app.state.place;
draw();
app.go(location.hash);
// Whoever opens the page starts at its top.
shown = app.state.place;
addEventListener("hashchange", () => app.go(location.hash));
// Nobody looks at a page in the background.
document.addEventListener("visibilitychange", () => app.watch(document.visibilityState === "visible"));
app.watch(true);
