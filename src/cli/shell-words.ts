/** Quote a word for a POSIX shell, for display only: cgn itself starts nothing through a shell. */
export function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

const SECRET_FLAG = /(^|-)(api-key|hf-token|auth-token|access-token|password|secret)$/;

/** What stands in the place of a secret. */
export const HIDDEN = "<secret>";

/** A command line with the values of flags that carry secrets (`--api-key K`) hidden; several values too. */
export function hideSecrets(argv: readonly string[]): string[] {
  let hiding = false;
  return argv.map((word) => {
    if (!/^-{1,2}[A-Za-z]/.test(word)) return hiding ? HIDDEN : word;
    const [name = "", ...value] = word.split("=");
    hiding = SECRET_FLAG.test(name.replaceAll("_", "-"));
    return hiding && value.length > 0 ? `${name}=${HIDDEN}` : word;
  });
}
