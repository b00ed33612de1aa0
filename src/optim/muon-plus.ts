// What Muon+ can normalise. Apart from the arithmetic, so that configurations can name it without loading that.

/** Which lengths of an update Muon+ makes 1, in order: each of its rows, each of its columns. */
export const muonPlusModes = ["none", "row", "col", "row_col", "col_row"] as const;
export type MuonPlusMode = (typeof muonPlusModes)[number];
