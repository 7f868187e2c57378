import type { Finding } from "../../core/findings.ts";
import type { HostNeeds } from "../../core/host-needs.ts";
import { shellWord } from "./finding-text.ts";
import type { CheckedLaunch } from "./findings.ts";
import type { ModelState } from "./host-state.ts";

/** A model that is not there, not whole, or not of the form that the engine loads. */
export function modelFindings({ needs, state }: CheckedLaunch): Finding[] {
  const { model } = needs;
  const found = state.model;
  if (model === undefined || found === undefined) return [];
  const find = (code: Finding["code"], what: string, remedy: string, fix?: string): Finding[] => [
    { code, severity: "error", what, remedy, keys: model.keys, ...(fix === undefined ? {} : { fix }) },
  ];
  if (found.unreadable !== undefined) {
    const fix = `chmod -R a+rX ${shellWord(found.unreadable)}`;
    return find("model-missing", `"${found.unreadable}" cannot be read by this user`, "Give it the rights", fix);
  }
  if (found.at === undefined) return absentModel(needs, found, find);
  if (found.missing !== undefined && found.missing.length > 0) return [incomplete(needs, found, found.missing, find)];
  const isGguf = model.layout === "gguf" || (model.layout === "any" && !found.isFolder);
  if (found.broken !== undefined && found.broken.length > 0) {
    const what = `${listed(found.broken)} of the model are no weights but a Git LFS pointer, empty, cut short, or half a download`;
    return find("model-incomplete", what, "Download the model again in full", download(needs));
  }
  if (isGguf && found.isFolder === true) {
    const what = `"${found.at}" is a folder, and this engine loads one GGUF file`;
    return find("model-incomplete", what, "Name the .gguf file in it");
  }
  if (found.isFolder !== true || isGguf) return [];
  if (found.hasConfig === false) {
    return find("model-incomplete", `"${found.at}" has no config.json`, "Name the folder that has it", download(needs));
  }
  if (found.weightBytes !== 0) return [];
  // A warning: engines can load weights from elsewhere, or make some up (--load-format).
  const none = find("model-incomplete", `"${found.at}" has no weights`, "Download the model in full", download(needs));
  return none.map((finding) => ({ ...finding, severity: "warning" }));
}

const listed = ([first = "", ...rest]: readonly string[]): string =>
  `"${first}"${rest.length > 0 ? ` and ${rest.length} more files` : ""}`;

/** Shards that are not there. An engine downloads those of a hub model at its start. */
function incomplete(needs: HostNeeds, found: ModelState, missing: readonly string[], find: Find): Finding {
  const what = `the index of the weights in "${found.at}" names ${listed(missing)} that ${missing.length === 1 ? "is" : "are"} not there`;
  const [finding] = find("model-incomplete", what, "Download the model in full", download(needs));
  const isFetched = found.inHub === true && found.hubOffline !== true;
  return { ...finding!, severity: isFetched ? "warning" : "error" };
}

type Find = (code: Finding["code"], what: string, remedy: string, fix?: string) => Finding[];

/** Ends with the command that fetches the model, where a hub name is known. */
function download({ model }: HostNeeds): string | undefined {
  return model?.repo === undefined ? undefined : `hf download ${shellWord(model.repo)}`;
}

function absentModel(needs: HostNeeds, found: ModelState, find: Find): Finding[] {
  const { model } = needs;
  if (model?.repo === undefined) {
    return find("model-missing", `"${model?.path}" does not exist`, "Set path to the model's file or folder");
  }
  if (model.layout === "gguf" && model.path === undefined) return [];
  if (found.hubOffline === true) {
    const what = `"${model.repo}" is not in the hub's cache on this host, and HF_HUB_OFFLINE keeps the engine from downloading it`;
    return find("model-missing", what, "Download it, or unset HF_HUB_OFFLINE", download(needs));
  }
  const [not] = find(
    "model-not-downloaded",
    `"${model.repo}" is not in the hub's cache on this host: the engine downloads it at its first start`,
    "Download it before, or raise [agent].ready_timeout for that",
    download(needs),
  );
  return not === undefined ? [] : [{ ...not, severity: "warning" }];
}
