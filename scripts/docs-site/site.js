// The docs site's page: draws pictures, finds headings. Plain script, so that pages opened as files work.
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
globalThis.mermaid?.initialize({ startOnLoad: true, theme: dark ? "dark" : "neutral", securityLevel: "strict" });

const menu = document.querySelector("nav details");
if (matchMedia("(max-width: 60rem)").matches) menu.open = false;

const field = document.getElementById("find");
const list = document.getElementById("found");

/** Headings that have each of the words, pages' own first. */
function find(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const all = globalThis.HEADINGS.filter((h) =>
    words.every((word) => `${h.page} ${h.text}`.toLowerCase().includes(word)),
  );
  return all.sort((a, b) => a.to.includes("#") - b.to.includes("#")).slice(0, 30);
}

field.addEventListener("input", () => {
  list.replaceChildren(
    ...find(field.value).map(({ page, text, to }) => {
      const [item, link, small] = ["li", "a", "small"].map((name) => document.createElement(name));
      link.href = to;
      link.textContent = text;
      small.textContent = page === text ? "" : ` ${page}`;
      link.append(small);
      item.append(link);
      return item;
    }),
  );
  list.hidden = list.childElementCount === 0;
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") list.hidden = true;
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  }
});
