const MONTHS = "January February March April May June July August September October November December".split(" ");
const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const DAY_MS = 86_400_000;

const two = (n: number): string => String(n).padStart(2, "0");
const hour12 = (date: Date): number => date.getHours() % 12 || 12;

function dayOfYear(date: Date): number {
  const today = Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
  return (today - Date.UTC(date.getFullYear(), 0, 1)) / DAY_MS + 1;
}

const FIELDS: Readonly<Record<string, (date: Date) => string>> = {
  Y: (date) => String(date.getFullYear()),
  y: (date) => two(date.getFullYear() % 100),
  m: (date) => two(date.getMonth() + 1),
  d: (date) => two(date.getDate()),
  e: (date) => String(date.getDate()).padStart(2, " "),
  B: (date) => MONTHS[date.getMonth()]!,
  b: (date) => MONTHS[date.getMonth()]!.slice(0, 3),
  A: (date) => DAYS[date.getDay()]!,
  a: (date) => DAYS[date.getDay()]!.slice(0, 3),
  H: (date) => two(date.getHours()),
  I: (date) => two(hour12(date)),
  M: (date) => two(date.getMinutes()),
  S: (date) => two(date.getSeconds()),
  p: (date) => (date.getHours() < 12 ? "AM" : "PM"),
  j: (date) => String(dayOfYear(date)).padStart(3, "0"),
  F: (date) => strftime(date, "%Y-%m-%d"),
  T: (date) => strftime(date, "%H:%M:%S"),
  "%": () => "%",
};

/**
 * Format local time the way Python's `strftime` does in the C locale, for the fields that chat templates use; `%-d` (no
 * leading zero) included. A field not known stays as written.
 */
export function strftime(date: Date, format: string): string {
  return format.replace(/%(-?)([A-Za-z%])/g, (written, dash: string, field: string) => {
    const text = FIELDS[field]?.(date);
    if (text === undefined) return written;
    return dash === "-" ? text.replace(/^[0 ]+(?=.)/, "") : text;
  });
}
