/** Where the key is kept: as long as this tab is open. */
const KEY = "cgn-key";

/** An answer that is none, with the server's own words. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export const storedKey = (): string => sessionStorage.getItem(KEY) ?? "";

export function storeKey(key: string): void {
  if (key === "") sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, key);
}

/** Ask this server; with the key, where there is one. @throws ApiError; status 0: no answer */
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const key = storedKey();
  const headers = { ...(init.headers as object), ...(key === "" ? {} : { authorization: `Bearer ${key}` }) };
  let res: Response;
  try {
    res = await fetch(path, { ...init, headers, cache: "no-store" });
  } catch (e) {
    if (e instanceof DOMException && e.name === "AbortError") throw e;
    throw new ApiError(0, "The router does not answer.");
  }
  if (res.ok) return res;
  throw new ApiError(res.status, messageOf(await res.text()) ?? `The router answers ${res.status}.`);
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  const res = await call(path, signal === undefined ? {} : { signal });
  return (await res.json()) as T;
}

/** The sentence of an error body. */
export function messageOf(body: string): string | undefined {
  try {
    const { error } = JSON.parse(body) as { readonly error?: { readonly message?: unknown } };
    return typeof error?.message === "string" ? error.message : undefined;
  } catch {
    return undefined;
  }
}
