import pc from "picocolors";

const ALWAYS = pc.createColors(true);
const NEVER = pc.createColors(false);

/** Turn one JSON line of pino into `12:04:05 warn  message  key=value key="two words"`, newline included. */
export function prettyLine(json: string, color: boolean): string {
  const paint = color ? ALWAYS : NEVER;
  const { time, level, msg, ...fields } = JSON.parse(json) as Record<string, unknown>;
  const label = String(level).padEnd(5);
  const shade = { debug: paint.gray, info: paint.green, warn: paint.yellow, error: paint.red }[String(level)];
  const facts = Object.entries(fields).map(([key, value]) => `${paint.gray(`${key}=`)}${factText(value)}`);
  return `${[paint.gray(clockText(Number(time))), shade ? shade(label) : label, String(msg), ...facts].join(" ")}\n`;
}

function clockText(ms: number): string {
  return new Date(ms).toTimeString().slice(0, 8);
}

function factText(value: unknown): string {
  if (typeof value === "string") return /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
