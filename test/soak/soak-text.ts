const WORDS = "the capital of a country is where its rivers meet and ships wait for wind".split(" ");

/** What a soak's engine says to a prompt: the first `count` words of an endless text that follows from it. */
export function expectedWords(prompt: string, count: number): string[] {
  let state = 2_166_136_261;
  for (let i = 0; i < prompt.length; i++) state = Math.imul(state ^ prompt.charCodeAt(i), 16_777_619) >>> 0;
  return Array.from({ length: count }, (_, i) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return `${WORDS[(state >>> 16) % WORDS.length]}${i % 7}`;
  });
}
