/** A word for a shell that people paste into. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Bytes for people: GiB above one, else MiB. */
export function gib(bytes: number): string {
  const size = bytes / 1024 ** 3;
  if (size >= 1) return `${Number(size.toFixed(size < 10 ? 1 : 0))} GiB`;
  return `${Math.round(bytes / 1024 ** 2)} MiB`;
}
