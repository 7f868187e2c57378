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

/**
 * The recipe of that name, or the only one whose name ends with it.
 * @throws CgnError BAD_INVOCATION when there is none, or more than one
 */
export function findRecipe(name: string, recipes: readonly Recipe[] = listRecipes()): Recipe {
  const wanted = name.replace(/\.toml$/, "");
  const exact = recipes.find((recipe) => recipe.name === wanted);
  if (exact !== undefined) return exact;
  const parts = wanted.split("/");
  const fitting = recipes.filter((recipe) => parts.every((part) => recipe.name.split("/").includes(part)));
  if (fitting.length === 1) return fitting[0]!;
  const names = (fitting.length > 0 ? fitting : nearest(wanted, recipes)).map((recipe) => recipe.name);
  const why = fitting.length > 0 ? `${fitting.length} fit` : "there is none of that name";
  const shown = `${names.slice(0, 8).join(", ")}${names.length > 8 ? ", …" : ""}`;
  throw new CgnError("BAD_INVOCATION", `Cannot find recipe "${name}": ${why}. Choose one: ${shown}`, { name, names });
}

/** By the least number of changed letters, against the whole name and each part of it. */
function nearest(wanted: string, recipes: readonly Recipe[]): Recipe[] {
  const last = wanted.split("/").at(-1)!;
  const far = ({ name }: Recipe): number =>
    Math.min(distance(wanted, name), ...name.split("/").map((part) => distance(last, part)));
  return [...recipes].sort((a, b) => far(a) - far(b)).slice(0, 5);
}
