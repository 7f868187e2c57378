import { formatKeyPath } from "../config/key-path.ts";
import type { EngineSettings, Settings } from "../config/settings.ts";
import type { Role } from "../core/engine-kind.ts";
import type { Shortcuts } from "./load-config.ts";

interface Given {
  readonly role: Role;
  /** What the configuration said then. */
  readonly written: Role;
}

/**
 * Roles that engines were given by `cgn role` while they ran, by their URL. They hold until the process ends, or until the
 * configuration gives the engine another role than it did then. Immutable.
 */
export class GivenRoles {
  readonly #given: ReadonlyMap<string, Given>;

  constructor(given: ReadonlyMap<string, Given> = new Map()) {
    this.#given = given;
  }

  /** @param written the configuration as it is without any given role */
  with(engines: readonly { readonly url: string }[], role: Role, written: Pick<Settings, "engines">): GivenRoles {
    const all = new Map(this.#given);
    for (const { url } of engines) {
      const own = written.engines.find((each) => each.url === url)?.role;
      if (own === undefined || own === role) all.delete(url);
      else all.set(url, { role, written: own });
    }
    return new GivenRoles(all);
  }

  /** Without those that the configuration has overtaken. */
  stillGiven(written: Pick<Settings, "engines">): GivenRoles {
    const holds = ([url, { role, written: then }]: readonly [string, Given]): boolean => {
      const own = written.engines.find((each) => each.url === url)?.role;
      return own === then && own !== role;
    };
    return new GivenRoles(new Map([...this.#given].filter(holds)));
  }

  get isEmpty(): boolean {
    return this.#given.size === 0;
  }

  /** The role of each engine, as flags that win over everything else. */
  shortcuts(written: Pick<Settings, "engines">): Shortcuts {
    const keyOf = ({ path }: EngineSettings): string => formatKeyPath([...path, "role"]);
    return Object.fromEntries(
      written.engines.map((engine) => {
        const role = this.#given.get(engine.url)?.role ?? engine.role;
        return [keyOf(engine), { flag: "cgn role", value: role }];
      }),
    );
  }
}
