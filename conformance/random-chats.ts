/** Seeded random multi-turn chats, with which predictions are put to the test. */

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** One request: all turns so far, and how it is to be answered. */
export interface ChatTurn {
  /** Which chat it belongs to; its reply goes to `RandomChats.answered()`. */
  readonly chat: number;
  readonly messages: readonly ChatMessage[];
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
  /** "" for none. */
  readonly salt: string;
  /** Adapter; "" for the base model. */
  readonly lora: string;
}

export interface RandomChatsOptions {
  readonly seed: number;
  /** Chats that go on at the same time; each takes its turn at random. Default 10. */
  readonly open?: number;
  /** A chat ends after so many turns at most. Default 6. */
  readonly turns?: number;
  readonly temperatures?: readonly number[];
  /** Most tokens of an answer. Default 40. */
  readonly maxTokens?: number;
  /** Every chat takes one of these. Default [""]. */
  readonly salts?: readonly string[];
  readonly loras?: readonly string[];
}

export interface RandomChats {
  /** The next turn of some chat that waits for no answer. */
  next(): ChatTurn;
  /** The model's own reply is sent back with the chat's next turn. */
  answered(chat: number, reply: string): void;
}

const SYSTEMS = [
  "You are a careful assistant of a small publishing house. Answer briefly, with facts only, and never speculate about what you do not know.",
  "Ты вежливый помощник. Отвечай коротко и только по делу.",
  "你是一个简洁的助手。请用一句话回答。",
  "You write code. Answer with one code block in the language that is asked for, and no explanation:\n```\n...\n```",
];

const OPENERS: readonly string[] = [
  "What is the capital of France, and which river flows through it?",
  "Write a short poem about the sea, with odd  spaces   in it.",
  "Почему небо голубое? Объясни просто.",
  "请介绍一下长城的历史。",
  "日本の首都はどこですか。詳しく教えてください。",
  "Reply only with emoji: 🎉👩‍👩‍👧‍👦🏳️‍🌈 and say how you feel 😀😅",
  "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n\nMake it iterative, please.",
  "SELECT name, COUNT(*) FROM users GROUP BY name HAVING COUNT(*) > 1; -- what does it do?",
  "List ten unusual words; antidisestablishmentarianism is one. Explain none.",
  "\tTabs\tand\n\nempty lines\n\n\n  and leading spaces",
  'Translate to German: "The quick brown fox jumps over the lazy dog\'s back 1,234 times."',
  "العربية: ما هي عاصمة مصر؟",
  "한국어로 인사해 주세요. 그리고 짧은 이야기를 들려주세요.",
];

const FOLLOW_UPS: readonly string[] = [
  "Go on.",
  "Why?",
  "Say it again, in other words.",
  "и ещё?",
  "继续。",
  "もっと短く。",
  "👍👍🏽 more!",
  "And   in   one   word?",
  'Now as JSON: {"answer": ...}',
  "I don't understand, it's unclear; who'd've thought so?",
  "for (let i = 0; i < 10; i++) { console.log(i); }",
];

interface OpenChat {
  readonly id: number;
  messages: readonly ChatMessage[];
  readonly salt: string;
  readonly lora: string;
  left: number;
  waits: boolean;
}

export function createRandomChats(options: RandomChatsOptions): RandomChats {
  const random = seeded(options.seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const { open = 10, turns = 6, temperatures = [0, 0.3, 0.7, 1, 1.5], maxTokens = 40 } = options;
  const chats: OpenChat[] = [];
  let made = 0;
  const begin = (): OpenChat => {
    const system = random() < 0.7 ? [{ role: "system" as const, content: pick(SYSTEMS) }] : [];
    return {
      id: made++,
      messages: system,
      salt: pick(options.salts ?? [""]),
      lora: pick(options.loras ?? [""]),
      left: 1 + Math.floor(random() * turns),
      waits: false,
    };
  };
  return {
    next() {
      for (let i = 0; i < chats.length; i++) if (chats[i]!.left <= 0 && !chats[i]!.waits) chats.splice(i--, 1);
      while (chats.filter((chat) => !chat.waits).length < open) chats.push(begin());
      const chat = pick(chats.filter((each) => !each.waits));
      const first = chat.messages.every((message) => message.role === "system");
      chat.messages = [...chat.messages, { role: "user", content: pick(first ? OPENERS : FOLLOW_UPS) }];
      chat.waits = true;
      return {
        chat: chat.id,
        messages: chat.messages,
        temperature: pick(temperatures),
        maxTokens: 4 + Math.floor(random() * (maxTokens - 3)),
        seed: Math.floor(random() * 2 ** 31),
        salt: chat.salt,
        lora: chat.lora,
      };
    },
    answered(id, reply) {
      const chat = chats.find((each) => each.id === id);
      if (chat === undefined) return;
      chat.messages = [...chat.messages, { role: "assistant", content: reply }];
      chat.waits = false;
      chat.left--;
    },
  };
}

/** A small generator (mulberry32): the same numbers everywhere for one seed, in 0..1. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
