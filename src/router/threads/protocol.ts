import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import type { SecureContextOptions } from "node:tls";
import type { LogFields } from "../../core/log.ts";
import type { WorkerInfo } from "../../core/worker.ts";
import type { UpstreamTimeouts } from "../../http/upstream.ts";
import type { AnswerFacts } from "../answer.ts";
import type { LegOrder } from "../away.ts";
import type { EndpointKind } from "../endpoints.ts";
import type { Prompt } from "../render.ts";
import type { LegEnd } from "../sinks.ts";

/** What a thread is started with. */
export interface DoorSettings {
  /** 0 on. */
  readonly index: number;
  readonly listen: { readonly host: string; readonly port: number };
  readonly maxBodyBytes: number;
  /** Callers show keys: no body is read before one was checked. */
  readonly identifiesFirst: boolean;
  readonly timeouts: UpstreamTimeouts | undefined;
  readonly secrets: Secrets;
  readonly workers: readonly WorkerInfo[];
  /** For finding models' files. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The main thread's clock less the host's monotonic one, ms: all threads tell the same time. */
  readonly clockMs: number;
}

/** Certificates of the front door, and what connections to engines are made with. */
export interface Secrets {
  readonly tls: DoorTls | undefined;
  readonly engineTls: SecureContextOptions | undefined;
}

/** Of the front door. */
export type DoorTls = SecureContextOptions & { readonly requestCert: boolean; readonly required: boolean };

/** A request is named by a number of its thread's own. */
interface OfRequest {
  readonly id: number;
}
interface OfLeg extends OfRequest {
  /** Tries of one request, from 1 on. */
  readonly leg: number;
}

/** Main thread → thread with the connections. */
export type ToDoor =
  | { readonly t: "workers"; readonly workers: readonly WorkerInfo[] }
  | ({ readonly t: "tls" } & Secrets)
  | { readonly t: "duck" }
  | { readonly t: "close"; readonly graceMs: number }
  /** Its caller is known: read the body. */
  | ({ readonly t: "read" } & OfRequest)
  | ({ readonly t: "prompt"; readonly model: string; readonly root: string } & OfRequest)
  | ({ readonly t: "bring" } & OfRequest)
  | ({ readonly t: "leg"; readonly order: SentOrder } & OfLeg)
  | ({ readonly t: "lost"; readonly reason: string } & OfLeg)
  | ({ readonly t: "answer"; readonly part: AnswerPart } & OfRequest)
  | ({ readonly t: "cut" } & OfRequest);

/** A leg's order as it can be sent: the worker by its id, without functions. */
export interface SentOrder extends Omit<LegOrder, "worker" | "facts" | "onHead" | "onFirst"> {
  readonly worker: string;
  /** The answer's head is told. */
  readonly tellsHead: boolean;
  /** Headers that were set before. */
  readonly set: OutgoingHttpHeaders | undefined;
}

/** A piece of an answer that the main thread gives itself. */
export interface AnswerPart {
  /** With the first piece. */
  readonly head?: {
    readonly status: number;
    readonly headers: OutgoingHttpHeaders;
    readonly set?: OutgoingHttpHeaders;
  };
  readonly chunk?: string | Uint8Array;
  /** Send the head although nothing follows yet. */
  readonly flush?: true;
  readonly end?: true;
  /** Tell when the client has taken enough. */
  readonly asksDrain?: true;
}

/** Thread with the connections → main thread. */
export type FromDoor =
  | { readonly t: "listening"; readonly host: string; readonly port: number }
  | { readonly t: "failed"; readonly error: SentError }
  | { readonly t: "closed" }
  | { readonly t: "figures"; readonly connections: number; readonly delayS: number }
  | {
      readonly t: "log";
      readonly level: LogLevel;
      readonly message: string;
      readonly fields: LogFields;
      readonly once?: string;
    }
  | { readonly t: "refusedTls"; readonly why: string; readonly from: string | undefined }
  | ({ readonly t: "ask"; readonly head: SentHead; readonly read?: Told<SentRead> } & OfRequest)
  | ({ readonly t: "read"; readonly read: Told<SentRead> } & OfRequest)
  | ({ readonly t: "prompt"; readonly prompt: SentPrompt } & OfRequest)
  | ({ readonly t: "brought"; readonly body: Told<SentBody> } & OfRequest)
  | ({ readonly t: "head" | "first" } & OfLeg)
  | ({ readonly t: "ended"; readonly end: Told<SentEnd> } & OfLeg)
  | ({ readonly t: "drain" | "left" } & OfRequest);

export type LogLevel = "debug" | "info" | "warn" | "error";

/** A `CgnError` as it can be sent: clones of errors lose their code. */
export interface SentError {
  readonly code: string;
  readonly message: string;
  readonly details: object;
  readonly stack?: string | undefined;
}

export type Told<T> = { readonly ok: T } | { readonly error: SentError };

export interface SentHead {
  readonly method: string;
  readonly url: string;
  /** Those that the main thread looks at. */
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  /** Milliseconds of the main thread's clock. */
  readonly startedMs: number;
}

/** What of a body the main thread must know. */
export interface SentRead {
  readonly kind: EndpointKind;
  readonly model: string | undefined;
  readonly stream: boolean;
  readonly root: string;
  readonly readsCache: boolean;
  readonly unmatched: string | undefined;
  readonly canFold: boolean;
  /** `lora_path` of the body. */
  readonly lora: unknown;
  /** Rendered already, as the fleet stood in that thread. */
  readonly prompt: SentPrompt | undefined;
}

export interface SentPrompt {
  readonly model: string;
  readonly root: string;
  readonly prompt: Prompt;
  readonly textBytes: number;
}

export interface SentBody {
  readonly body: Uint8Array;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
}

export interface SentEnd {
  readonly end: LegEnd;
  readonly facts: AnswerFacts;
  readonly answer: AnswerState;
}

/** How far the client's answer has come. */
export interface AnswerState {
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  readonly statusCode: number;
}
