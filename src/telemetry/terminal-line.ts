/**
 * One terminal shared by lines that stay (log, messages) and a line that is drawn over and over (a progress bar). Whatever is
 * printed while a bar stands first takes the bar's line away, and the bar is drawn again below.
 */
export interface TerminalLine {
  /** Draw the bar's line, in place of what it was. Without line breaks. */
  draw(text: string): void;
  /** The bar stays as it is now, and ends its line. */
  end(): void;
  /** Print whole lines, the last line break included. */
  print(text: string): void;
}

const CLEAR = "\r\x1b[2K";

export function createTerminalLine(write: (text: string) => void): TerminalLine {
  let drawn: string | undefined;
  return {
    draw(text) {
      drawn = text;
      write(CLEAR + text);
    },
    end() {
      if (drawn !== undefined) write("\n");
      drawn = undefined;
    },
    print: (text) => write(drawn === undefined ? text : `${CLEAR}${text}${drawn}`),
  };
}

/** The process's stderr, of which there is one: log, messages and bar all go through it. */
export const STDERR_LINE: TerminalLine = createTerminalLine((text) => void process.stderr.write(text));
