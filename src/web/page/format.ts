/** Figures as people read them. */

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0";
  if (ms > 0 && ms < 0.05) return "<0.1 ms";
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1_000).toFixed(ms < 9_950 ? 1 : 0)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  return `${(ms / 3_600_000).toFixed(1)} h`;
}

export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return "–";
  return `${(share * 100).toFixed(share > 0 && share < 0.095 ? 1 : 0)} %`;
}

/** 1234567 → 1.2 M */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value < 10_000) return String(Math.round(value));
  if (value < 1_000_000) return `${(value / 1_000).toFixed(value < 100_000 ? 1 : 0)} k`;
  return `${(value / 1_000_000).toFixed(1)} M`;
}

export function rate(perS: number | null | undefined): string {
  if (perS === null || perS === undefined) return "–";
  if (perS === 0) return "0";
  return perS < 10 ? perS.toFixed(perS < 1 ? 2 : 1) : count(perS);
}

export function bytes(size: number | undefined): string {
  if (size === undefined) return "–";
  if (size < 1_024) return `${size} B`;
  return size < 1_048_576 ? `${(size / 1_024).toFixed(1)} KiB` : `${(size / 1_048_576).toFixed(1)} MiB`;
}

/** How long ago, in a word. */
export function ago(atMs: number, nowMs: number): string {
  const s = Math.max(0, Math.round((nowMs - atMs) / 1_000));
  if (s < 2) return "now";
  if (s < 120) return `${s} s ago`;
  return s < 7_200 ? `${Math.round(s / 60)} min ago` : `${Math.round(s / 3_600)} h ago`;
}

/** Local time with seconds. */
export function clockTime(atMs: number): string {
  return new Date(atMs).toLocaleTimeString([], {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hour12: false,
  });
}

/** `1 request`, `3 requests` */
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;
