import { type ComponentChildren, h as create, type VNode } from "preact";

/** A piece of the page. */
export type View = VNode;

/** Make an element. */
export function h(tag: string, props: Readonly<Record<string, unknown>>, children?: ComponentChildren): View {
  return create(tag, props, children) as unknown as View;
}
