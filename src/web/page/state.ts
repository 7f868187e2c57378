import type { Dashboard, Decision, History, Prefixes } from "./data.ts";

export const PLACES = ["overview", "requests", "charts", "prefixes", "knowledge", "chat"] as const;
export type PlaceName = (typeof PLACES)[number];

/** Where in the page: `#/requests/ID` is one request. */
export interface Place {
  readonly name: PlaceName;
  readonly id?: string;
}

/** What of an engine's output is shown. */
export interface Logs {
  readonly lines: readonly string[];
  readonly error?: string;
}

/** One turn of the chat, with the route of its answer. */
export interface Turn {
  readonly role: "user" | "assistant";
  readonly text: string;
  /** The model's thoughts, where the engine tells them apart. */
  readonly thoughts?: string;
  readonly route?: {
    readonly id: string;
    readonly node: string;
    readonly predicted?: number;
    readonly cached?: number;
    readonly prompt?: number;
    readonly generated?: number;
    readonly ttftMs?: number;
    readonly totalMs?: number;
  };
  readonly error?: string;
}

export interface ChatState {
  readonly model: string;
  readonly turns: readonly Turn[];
  readonly draft: string;
  readonly busy: boolean;
}

/** All that the page knows. Views are functions of it. */
export interface State {
  readonly place: Place;
  readonly theme: "auto" | "light" | "dark";
  readonly data?: Dashboard;
  /** Why the last look failed. */
  readonly trouble?: string;
  /**
   * A key is asked for, and why. What an action wants, or who uses the page (`choice`), stays until it is answered: a page that may be read
   * says nothing of it.
   */
  readonly wantsKey?: { readonly why: string; readonly of: "page" | "action" | "choice" };
  readonly hasKey: boolean;
  readonly minutes: number;
  readonly history?: History;
  readonly prefixes?: Prefixes;
  readonly decision?: Decision | { readonly id: string; readonly error: string };
  readonly logs: Readonly<Record<string, Logs>>;
  readonly chat: ChatState;
  /** What the last action came to; read out to screen readers. */
  readonly said: { readonly text: string; readonly bad: boolean };
  /** An action that needs a second word: its sentence. */
  readonly asked?: Asked;
}

export interface Asked {
  readonly text: string;
  readonly verb: string;
  readonly path: string;
  /** The element that had the focus, by its id: it gets it back. */
  readonly from: string;
}

/** What views call. */
export interface Actions {
  /** Ask for a confirmation, then POST. */
  ask(asked: Asked): void;
  answer(yes: boolean): void;
  /** POST at once. */
  act(path: string, what: string): void;
  toggleLogs(engine: string): void;
  setKey(key: string): void;
  withoutKey(): void;
  /** Ask for a key although nothing has wanted one yet. */
  enterKey(): void;
  setTheme(theme: State["theme"]): void;
  setMinutes(minutes: number): void;
  chat(change: Partial<ChatState>): void;
  send(): void;
  stopChat(): void;
  clearChat(): void;
}

export const FIRST_STATE: State = {
  place: { name: "overview" },
  theme: "auto",
  hasKey: false,
  minutes: 60,
  logs: {},
  chat: { model: "", turns: [], draft: "", busy: false },
  said: { text: "", bad: false },
};

/** Read `#/requests/abc`; what is not known is the overview. */
export function placeOf(hash: string): Place {
  const [, name = "", id = ""] = /^#\/(\w+)(?:\/(.+))?$/.exec(hash) ?? [];
  const known = PLACES.find((place) => place === name);
  if (known === undefined) return { name: "overview" };
  if (id === "") return { name: known };
  try {
    return { name: known, id: decodeURIComponent(id) };
  } catch {
    return { name: known };
  }
}

export const requestHref = (id: string): string => `#/requests/${encodeURIComponent(id)}`;
