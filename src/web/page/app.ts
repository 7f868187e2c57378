import { ApiError, call, getJson, storeKey } from "./api.ts";
import { runChat } from "./chat-run.ts";
import { chosenModel } from "./chat-view.ts";
import type { Dashboard, Decision, History, Prefixes } from "./data.ts";
import { type Actions, type Asked, type ChatState, FIRST_STATE, placeOf, type State, type Turn } from "./state.ts";

const LOOK_MS = 2_000;
/** What changes slowly is asked for each so many looks. */
const SLOW = 5;
const LOG_LINES = 40;

/** Keeps the state, asks the router, and does what views call. */
export class App implements Actions {
  state: State;
  readonly #changed: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #watching = false;
  #looks = 0;
  #chat: AbortController | undefined;

  constructor(first: Partial<State>, changed: () => void) {
    this.state = { ...FIRST_STATE, ...first };
    this.#changed = changed;
  }

  /** Go to where the hash says. */
  go(hash: string): void {
    this.#set({ place: placeOf(hash) });
    this.#looks = 0;
    void this.#look();
  }

  watch(on: boolean): void {
    this.#watching = on;
    clearTimeout(this.#timer);
    if (on) void this.#look();
  }

  ask(asked: Asked): void {
    this.#set({ asked });
  }

  answer(yes: boolean): void {
    const { asked } = this.state;
    if (asked === undefined) return;
    this.#set({ asked: undefined });
    if (yes) this.act(asked.path, `${asked.verb}: done`);
  }

  act(path: string, what: string): void {
    void (async () => {
      try {
        await call(path, { method: "POST" });
        this.#set({ said: { text: what, bad: false } });
      } catch (e) {
        this.#failed(e);
      }
      await this.#look();
    })();
  }

  toggleLogs(engine: string): void {
    const { [engine]: shown, ...others } = this.state.logs;
    this.#set({ logs: shown === undefined ? { ...others, [engine]: { lines: [] } } : others });
    if (shown === undefined) void this.#readLogs(engine);
  }

  setKey(key: string): void {
    storeKey(key);
    this.#looks = 0;
    this.#set({ hasKey: key !== "", wantsKey: undefined, data: undefined, logs: {}, said: { text: "", bad: false } });
    void this.#look();
  }

  /** Go on without the key that an action wanted. */
  readonly withoutKey = (): void => this.#set({ wantsKey: undefined });

  readonly enterKey = (): void =>
    this.#set({ wantsKey: { why: "It is sent with all that this page asks for.", of: "choice" } });

  setTheme(theme: State["theme"]): void {
    this.#set({ theme });
  }

  setMinutes(minutes: number): void {
    this.#set({ minutes });
    void this.#try(() => this.#readHistory());
  }

  chat(change: Partial<ChatState>): void {
    this.#set({ chat: { ...this.state.chat, ...change } });
  }

  send(): void {
    const { chat, data } = this.state;
    const text = chat.draft.trim();
    const model = chosenModel(chat, data?.status.models.map((each) => each.model) ?? []);
    if (text === "" || chat.busy || model === "") return;
    const turns: readonly Turn[] = [...chat.turns, { role: "user", text }];
    this.#chat = new AbortController();
    this.chat({ model, turns, draft: "", busy: true });
    const show = (answer: Turn): void => this.chat({ turns: [...turns, answer] });
    const refused = (why: string): void => {
      this.#set({ wantsKey: { why, of: "action" } });
      // To be sent again once there is a key.
      if (this.state.chat.draft === "") this.chat({ draft: text });
    };
    void runChat(model, turns, this.#chat.signal, show, refused).finally(() => {
      this.chat({ busy: false });
      void this.#look();
    });
  }

  // Called without its object by views.
  readonly stopChat = (): void => this.#chat?.abort();

  readonly clearChat = (): void => {
    this.chat({ turns: [] });
    // The button is of no use now, and would keep the focus.
    document.getElementById("chat-text")?.focus();
  };

  #set(change: { readonly [K in keyof State]?: State[K] | undefined }): void {
    this.state = { ...this.state, ...change } as State;
    this.#changed();
  }

  /** Ask for what is shown now, and again later. */
  async #look(): Promise<void> {
    clearTimeout(this.#timer);
    const slow = this.#looks++ % SLOW === 0;
    await this.#try(async () => {
      const data = await getJson<Dashboard>("/v1/cgn/dashboard");
      const { wantsKey } = this.state;
      this.#set({ data, trouble: undefined, wantsKey: wantsKey?.of === "page" ? undefined : wantsKey });
      const { place } = this.state;
      if (place.name === "requests" && place.id !== undefined) await this.#readDecision(place.id);
      if ((place.name === "overview" || place.name === "charts") && slow) await this.#readHistory();
      if (place.name === "prefixes" && slow) this.#set({ prefixes: await getJson<Prefixes>("/v1/cgn/prefixes") });
      for (const engine of Object.keys(this.state.logs)) await this.#readLogs(engine);
    });
    clearTimeout(this.#timer);
    if (this.#watching) this.#timer = setTimeout(() => void this.#look(), LOOK_MS);
  }

  async #try(what: () => Promise<void>): Promise<void> {
    try {
      await what();
    } catch (e) {
      const message = e instanceof Error ? e.message : String(e);
      if (isRefused(e)) this.#set({ wantsKey: { why: message, of: "page" }, trouble: undefined });
      else this.#set({ trouble: `${message} What is shown is older.` });
    }
  }

  async #readHistory(): Promise<void> {
    // Tiles show the last minute, whatever the charts' range is.
    const minutes = this.state.place.name === "charts" ? this.state.minutes : 15;
    this.#set({ history: await getJson<History>(`/v1/cgn/history?minutes=${minutes}`) });
  }

  async #readDecision(id: string): Promise<void> {
    const shown = this.state.decision;
    // What is over does not change, but for the judgement of its prediction.
    if (shown?.id === id && "outcome" in shown && shown.outcome?.prediction !== undefined) return;
    try {
      this.#set({ decision: await getJson<Decision>(`/v1/cgn/decisions/${encodeURIComponent(id)}`) });
    } catch (e) {
      if (e instanceof ApiError && e.status === 404) this.#set({ decision: { id, error: e.message } });
      else throw e;
    }
  }

  async #readLogs(engine: string): Promise<void> {
    try {
      const { lines } = await getJson<{ readonly lines: readonly string[] }>(
        `/v1/cgn/logs?engine=${encodeURIComponent(engine)}&lines=${LOG_LINES}`,
      );
      if (engine in this.state.logs) this.#set({ logs: { ...this.state.logs, [engine]: { lines } } });
    } catch (e) {
      const error = e instanceof Error ? e.message : String(e);
      if (isRefused(e)) {
        // Asked for again with the key, not every two seconds without.
        const { [engine]: _refused, ...others } = this.state.logs;
        this.#set({ wantsKey: { why: error, of: "action" }, logs: others });
      } else if (engine in this.state.logs) this.#set({ logs: { ...this.state.logs, [engine]: { lines: [], error } } });
    }
  }

  #failed(e: unknown): void {
    const text = e instanceof Error ? e.message : String(e);
    // The form says why.
    if (isRefused(e)) this.#set({ wantsKey: { why: text, of: "action" }, said: { text: "", bad: false } });
    else this.#set({ said: { text, bad: true } });
  }
}

const isRefused = (e: unknown): boolean => e instanceof ApiError && (e.status === 401 || e.status === 403);
