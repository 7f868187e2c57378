import { render } from "preact";
import { storedKey } from "./api.ts";
import { App } from "./app.ts";
import { shell } from "./shell-view.ts";

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
  render(shell(app.state, app), root);
}

draw();
app.go(location.hash);
addEventListener("hashchange", () => app.go(location.hash));
// Nobody looks at a page in the background.
document.addEventListener("visibilitychange", () => app.watch(document.visibilityState === "visible"));
app.watch(true);
