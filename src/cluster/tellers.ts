/** Who wants to hear that something changed. A listener may leave, or join, while it is being told. */
export interface Tellers {
  add(listener: () => void): () => void;
  tell(): void;
}

export function createTellers(): Tellers {
  // Wrapped, so that the same function may subscribe twice and leave once.
  const entries = new Set<{ readonly listener: () => void }>();
  return {
    add(listener) {
      const entry = { listener };
      entries.add(entry);
      return () => void entries.delete(entry);
    },
    tell() {
      for (const entry of [...entries]) if (entries.has(entry)) entry.listener();
    },
  };
}
