import { readdirSync, readFileSync } from "node:fs";
import { join, sep } from "node:path";
import { distance } from "fastest-levenshtein";
import { CgnError } from "../core/errors.ts";
import { PACKAGE_ROOT } from "./places.ts";

/** Where the recipes lie. */
export const RECIPES = join(PACKAGE_ROOT, "recipes");

/** A file to start from. */
export interface Recipe {
  /** `MODEL/ENGINE/NAME`, a host's file of several with one part more. */
  readonly name: string;
  readonly path: string;
  /** The comment at its head, in one line. */
  readonly about: string;
}

/** All recipes, by name. */
export function listRecipes(folder: string = RECIPES): Recipe[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".toml"))
    .map((file) => {
      const path = join(folder, file);
      return {
        name: file.slice(0, -".toml".length).split(sep).join("/"),
        path,
        about: headOf(readFileSync(path, "utf8")),
      };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function headOf(text: string): string {
  const lines = text.split("\n");
  const end = lines.findIndex((line) => !line.startsWith("#"));
  return lines
    .slice(0, end)
    .map((line) => line.replace(/^#\s*/, ""))
    .join(" ");
}

/** How a part of what was asked for may stand for a part of a name; the first way in which any recipe fits counts. */
const WAYS: readonly ((part: string, asked: string) => boolean)[] = [
  (part, asked) => part === asked,
  (part, asked) => part.startsWith(asked),
  (part, asked) => part.includes(asked),
];

/**
 * The recipe of that name, or the only one whose name has all parts of it, whole, begun or within.
 * @throws CgnError BAD_INVOCATION when there is none, or more than one
 */
export function findRecipe(name: string, recipes: readonly Recipe[] = listRecipes()): Recipe {
  const wanted = name.replace(/\.toml$/, "").toLowerCase();
  const exact = recipes.find((recipe) => recipe.name.toLowerCase() === wanted);
  if (exact !== undefined) return exact;
  const asked = partsOf(wanted);
  const fitting =
    asked.length === 0
      ? []
      : (WAYS.map((fits) =>
          recipes.filter((recipe) => asked.every((each) => partsOf(recipe.name).some((part) => fits(part, each)))),
        ).find((found) => found.length > 0) ?? []);
  if (fitting.length === 1) return fitting[0]!;
  const names = (fitting.length > 0 ? fitting : nearest(asked, recipes)).map((recipe) => recipe.name);
  const why = fitting.length > 0 ? `${fitting.length} fit` : "there is none of that name";
  const shown = names.slice(0, 8).join(", ");
  const more = names.length > 8 ? `, … (cgn recipe list ${asked.join(" ")} shows all)` : "";
  throw new CgnError("BAD_INVOCATION", `Cannot find recipe "${name}": ${why}. Choose one: ${shown}${more}`, {
    name,
    names,
  });
}

const partsOf = (name: string): string[] => name.toLowerCase().split("/").filter(Boolean);

/** Those with the most leading parts in common first, among them by the least number of changed letters. */
function nearest(asked: readonly string[], recipes: readonly Recipe[]): Recipe[] {
  const last = asked.at(-1) ?? "";
  const shared = ({ name }: Recipe): number => {
    const differs = partsOf(name).findIndex((part, n) => part !== asked[n]);
    return differs < 0 ? asked.length : differs;
  };
  const far = ({ name }: Recipe): number =>
    Math.min(distance(asked.join("/"), name), ...partsOf(name).map((part) => distance(last, part)));
  const most = Math.max(0, ...recipes.map(shared));
  return recipes
    .filter((recipe) => shared(recipe) === most)
    .sort((a, b) => far(a) - far(b))
    .slice(0, 5);
}
