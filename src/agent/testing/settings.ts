import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadSettings } from "../../config/load.ts";
import type { Settings } from "../../config/settings.ts";

/** Settings from TOML text, with all of the agent's folders in `dir` and all of its ports free ones. */
export function settingsFrom(dir: string, toml: string): Settings {
  const path = join(dir, "cgn.toml");
  writeFileSync(path, toml);
  const settings = loadSettings({ path, env: { XDG_STATE_HOME: dir, XDG_RUNTIME_DIR: dir }, cwd: dir });
  const free = { host: "127.0.0.1", port: 0 };
  return {
    ...settings,
    agent: {
      ...settings.agent,
      stateDir: dir,
      logDir: join(dir, "log"),
      kvUds: join(dir, "kv.sock"),
      listen: free,
      listenAdmin: free,
      heartbeatMs: 100,
    },
  };
}
