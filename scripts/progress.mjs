// A progress bar on stderr; a plain line at the start and the end where stderr is no terminal.
const WIDTH = 30;

/** Shows `share()` (0 to 1) five times a second until `stop()`. */
export function startProgress(label, share) {
  const started = Date.now();
  const tty = process.stderr.isTTY === true;
  const draw = (part) => {
    const filled = Math.round(WIDTH * Math.min(1, Math.max(0, part)));
    const seconds = ((Date.now() - started) / 1000).toFixed(0);
    process.stderr.write(
      `\r${label.padEnd(16)} [${"#".repeat(filled)}${"-".repeat(WIDTH - filled)}] ${String(Math.round(part * 100)).padStart(3)} % ${seconds} s`,
    );
  };
  if (!tty) process.stderr.write(`${label} …\n`);
  const timer = tty ? setInterval(() => draw(share()), 200) : undefined;
  return {
    stop() {
      if (timer !== undefined) {
        clearInterval(timer);
        draw(1);
        process.stderr.write("\n");
      } else {
        process.stderr.write(`${label}: ${((Date.now() - started) / 1000).toFixed(1)} s\n`);
      }
    },
  };
}
