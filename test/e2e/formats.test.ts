// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of Compose and shells
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { composeFiles } from "../../src/cli/formats/compose.ts";
import { k8sFiles } from "../../src/cli/formats/k8s.ts";
import { type OutputFile, type RenderedEngine, unitNames } from "../../src/cli/formats/rendered-engine.ts";
import { systemdFiles } from "../../src/cli/formats/systemd.ts";
import { emitFiles } from "../../src/cli/formats/write-files.ts";
import { loadConfig } from "../../src/config/load.ts";
import { planEngine } from "../../src/config/plan.ts";
import { SAMPLE_HOST } from "../../src/config/sample-host.ts";

// The tools that read these files must take what is rendered of every recipe. .ci/run installs them all.
const ROOT = join(import.meta.dirname, "..", "..");
const must = process.env.CGN_REQUIRE_TOOLS === "1";
const tool = (name: string): string | undefined => {
  const ours = join(ROOT, ".cache", "tools", "bin", name);
  if (existsSync(ours)) return ours;
  const found = spawnSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).stdout.trim();
  return found === "" ? undefined : found;
};
const DIR = mkdtempSync(join(tmpdir(), "cgn-formats-"));
afterAll(() => rmSync(DIR, { recursive: true }));

const ODD = ["--api-key", "k", "--odd", "a b", '{"x": "%h $HOME ${Y} $(Z)"}', "quote'\"\\", "", ";", "$$"];

/** All engines of all recipes that are started, and each once more with a secret and odd words. */
function engines(): RenderedEngine[] {
  const names = readdirSync(join(ROOT, "recipes"), { recursive: true, encoding: "utf8" }).sort();
  const settings = names
    .filter((name) => name.endsWith(".toml"))
    .flatMap((name) => {
      const plain = load(name, {}).settings;
      const keys = plain.models.map((model) => [`models."${model.name}".extra_args`, JSON.stringify(ODD)]);
      return [...plain.engines, ...load(name, Object.fromEntries(keys)).settings.engines];
    });
  const unit = unitNames(settings);
  return settings
    .map((each, n) => ({ name: unit[n]!, plan: planEngine(each), settings: each }))
    .filter(({ plan }) => plan.argv.length > 0);
}

const load = (name: string, overrides: Record<string, string>) =>
  loadConfig({ path: join("recipes", name), cwd: ROOT, env: {}, host: SAMPLE_HOST, overrides });

/** A folder of its own with the files in it. */
function write(files: readonly OutputFile[]): string {
  const folder = mkdtempSync(join(DIR, "x-"));
  emitFiles(files, folder, { cwd: DIR, out: () => {}, err: () => {} } as never);
  return folder;
}

const all = engines();
const analyze = tool("systemd-analyze");
const compose = tool("docker-compose");
const validate = tool("kubernetes-validate");

describe("formats", () => {
  it.skipIf(!must && analyze === undefined)(
    "systemd-analyze verify takes the units of every recipe, and refuses one that is wrong",
    () => {
      const files = systemdFiles(all).filter(({ path }) => path.endsWith(".service"));
      expect(files.length).toBeGreaterThan(all.length);
      const verify = (units: readonly OutputFile[]) => {
        const folder = write(units);
        const paths = units.map(({ path }) => join(folder, path));
        const run = spawnSync(analyze!, ["verify", "--man=no", ...paths], { encoding: "utf8" });
        return run.stderr.split("\n").filter((line) => line.includes(folder) || line.includes("cgn-"));
      };
      expect(verify(files)).toEqual([]);
      const wrong = { ...files[0]!, text: files[0]!.text.replace("KillMode=mixed", "KillMode=gently") };
      expect(verify([wrong]).join()).toContain("kill mode");
    },
  );

  it.skipIf(!must && compose === undefined)(
    "docker-compose config takes the services of every recipe, and keeps each word",
    () => {
      const folder = write(composeFiles(all, { image: "example/engine:1" }));
      const said = execFileSync(compose!, ["-f", join(folder, "compose.yaml"), "config"], {
        encoding: "utf8",
        cwd: folder,
        env: { ...process.env, CGN_API_KEY: "k" },
      });
      const { services } = parse(said);
      for (const { name, plan } of all) {
        // What it prints can be read by it again, so dollars stand twice.
        const words = services[name].entrypoint.map((word: string) => word.replaceAll("$$", "$"));
        expect(words).toEqual(plan.argv);
      }
    },
    30_000,
  );

  it.skipIf(!must && validate === undefined)(
    "kubernetes-validate takes the objects of every recipe, and refuses one that is wrong",
    () => {
      const check = (files: readonly OutputFile[]) => {
        const paths = [join(write(files), files[0]!.path)];
        return spawnSync(validate!, ["--strict", "-k", "1.34", "--no-warn", ...paths], { encoding: "utf8" }).status;
      };
      const files = k8sFiles(all, { image: "example/engine:1" });
      expect(check(files)).toBe(0);
      expect(
        check([{ ...files[0]!, text: files[0]!.text.replace("periodSeconds: 10", 'periodSeconds: "often"') }]),
      ).not.toBe(0);
    },
    30_000,
  );
});
