import type { Case } from "./case.ts";
import { CHAT_CASES, WRONG_CHAT_CASES } from "./cases-chat.ts";
import { COMPLETION_CASES } from "./cases-completion.ts";
import { OTHER_CASES } from "./cases-other.ts";

/** The requests, normal and wrong, in the order in which they are sent. Every engine gets all of them. */
export const CASES: readonly Case[] = [...OTHER_CASES, ...CHAT_CASES, ...WRONG_CHAT_CASES, ...COMPLETION_CASES];
