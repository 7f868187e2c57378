/** JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it, and so `tojson` of chat templates: a space behind `,` and `:`. */
export function pythonJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([key, member]) => `${JSON.stringify(key)}: ${pythonJson(member)}`);
  return `{${members.join(", ")}}`;
}
