/** A prompt that differs. */
export interface Difference {
  readonly api: string;
  readonly ours: string;
  readonly theirs: string;
}

/** What came of one template in one engine. */
export interface TemplateRow {
  readonly engine: string;
  readonly template: string;
  readonly bodies: number;
  readonly equal: number;
  /** Neither the engine nor we make a prompt. */
  readonly refused: number;
  /** Rendered by us, refused by the engine: routed as any other, and refused there. */
  readonly onlyEngineRefuses: number;
  /** Bodies for which the compiled template gave what the interpreter gave, three times. */
  readonly fast: number;
  /** The engine has a prompt, and we say why we have none; by reason. */
  readonly unmatched: Readonly<Record<string, number>>;
  readonly different: readonly Difference[];
}

const SHOWN = 60;

export function rowText(row: TemplateRow, show: number): string {
  const { engine, template, bodies, equal, refused, onlyEngineRefuses, unmatched, different, fast } = row;
  const said = Object.entries(unmatched).map(([reason, count]) => `    unmatched ${count}: ${reason}\n`);
  const head = `${engine} ${template}: ${bodies} bodies, ${equal} equal, ${different.length} different, ${refused} refused by both, ${onlyEngineRefuses} only by the engine; compiled = interpreted for ${fast}\n`;
  return head + said.join("") + different.slice(0, show).map(differenceText).join("");
}

function differenceText({ api, ours, theirs }: Difference): string {
  let at = 0;
  while (at < ours.length && ours[at] === theirs[at]) at++;
  const part = (text: string): string => JSON.stringify(text.slice(Math.max(0, at - SHOWN), at + SHOWN));
  return `    ${api}, letter ${at}\n      ours   ${part(ours)}\n      engine ${part(theirs)}\n`;
}
