// What every source of text comes down to: documents, in an order that does not change, each with its number. Tokenisers,
// end-of-text marks and packing are built on top of this and never see files, formats or hosts.

/**
 * Documents in a fixed order. An item never holds two of them, so that whoever reads on can put a mark between them.
 * Numbers count up, but not without gaps: a record that could not be used keeps its number.
 *
 * A document of many megabytes comes in pieces, cut at places that depend on its content alone, each with a number of
 * its own. All but the last of them have `isContinued`: what follows belongs to the same document.
 */
export interface DocumentSource {
  /** For messages and logs: where the documents come from, as the user named it. No secrets. */
  readonly label: string;
  /**
   * Changes when the documents may have changed; not with the folder that the files lie in, the size of the pieces that
   * they are read in, or the number of workers. Hexadecimal.
   */
  fingerprint(): Promise<string>;
  /**
   * The documents from number `from` (default 0) on. May be called again, also while another walk is under way. Ending
   * the loop early releases what the walk holds open.
   *
   * A source of text yields `text`; one of records whose text is still to be chosen (a chat) yields `record`.
   *
   * @throws DataError for what cannot be read, and for more bad records than the limit allows
   */
  documents(
    from?: number,
  ): AsyncIterable<
    | { readonly index: number; readonly text: string; readonly isContinued?: boolean }
    | { readonly index: number; readonly record: Record<string, unknown> }
  >;
}
