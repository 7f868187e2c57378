/** What flags of one command choose for every engine of the file. Texts are checked like the file's. */
export interface EnginePick {
  /** Only the engines of this model. A name that no `[models]` table has is loaded by that name when there are no tables. */
  readonly model?: string;
  readonly kind?: string;
  readonly role?: string;
  readonly kvOffload?: string;
}
