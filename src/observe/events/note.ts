// Messages for people. The configured log level filters these two in text output, and nothing else: metrics
// are never hidden by a level.
import type { LogLevel } from "../level.js";
import { type EventDocs, object, text } from "./doc.js";

export interface NoteEvents {
  warning: {
    code: string;
    message: string;
    details?: Readonly<Record<string, unknown>>;
  };
  log: {
    level: LogLevel;
    message: string;
  };
}

export const noteEventDocs = {
  warning: {
    doc: "Something deserves attention; the run goes on.",
    level: "WARNING",
    keys: {
      code: text("stable identifier, such as observe.sink_failed"),
      message: text("what happened and what to do"),
      details: object("values the message speaks of"),
    },
  },
  log: {
    doc: "A plain message.",
    keys: {
      level: text("DEBUG, INFO, WARNING or ERROR"),
      message: text("the message"),
    },
  },
} as const satisfies EventDocs<NoteEvents>;
