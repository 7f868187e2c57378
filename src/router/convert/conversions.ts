import type { Conversion } from "./conversion.ts";
import { MessageEvents, messageFromChat } from "./messages-answer.ts";
import { chatFromMessages } from "./messages-request.ts";
import { responseFromChat } from "./responses-answer.ts";
import { ResponseEvents } from "./responses-events.ts";
import { chatFromResponses } from "./responses-request.ts";

const CONVERSIONS: Readonly<Record<string, Conversion>> = {
  "/v1/messages": {
    request: chatFromMessages,
    whole: messageFromChat,
    stream: (asked) => new MessageEvents(asked),
  },
  "/v1/responses": {
    request: chatFromResponses,
    whole: responseFromChat,
    stream: (asked) => new ResponseEvents(asked),
  },
};

/** How to speak the API of a path through chat completions; undefined for one that cannot be. */
export function conversionOf(path: string): Conversion | undefined {
  return Object.hasOwn(CONVERSIONS, path) ? CONVERSIONS[path] : undefined;
}
