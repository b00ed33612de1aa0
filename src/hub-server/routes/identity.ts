// Who am I, and questions that the clients ask on the side and that have one answer.

import { HubError } from "../errors.js";
import { bodyChunks } from "../http/body.js";
import type { Route } from "../http/call.js";

export const identityRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/api/whoami-v2",
    access: "anyone",
    handle: ({ c, identity }) => {
      if (identity.role === undefined) {
        throw new HubError(
          401,
          "InvalidCredentials",
          "Invalid credentials: a token is needed to have a name",
        );
      }
      return c.json({
        type: "user",
        id: identity.name,
        name: identity.name,
        fullname: identity.name,
        email: null,
        emailVerified: false,
        canPay: false,
        isPro: false,
        periodEnd: null,
        avatarUrl: "",
        orgs: [],
        auth: {
          type: "access_token",
          accessToken: {
            displayName: identity.name,
            role: identity.role,
            createdAt: "1970-01-01T00:00:00.000Z",
          },
        },
      });
    },
  },
  {
    // Model cards are not checked here; without this answer a client cannot commit a README.md. The body of one who may
    // commit is taken, so that the client can finish sending; that of a stranger is not.
    method: "POST",
    path: "/api/validate-yaml",
    access: "anyone",
    handle: async (call) => {
      const { c, hub, identity } = call;
      if (identity.role !== undefined) for await (const _ of bodyChunks(call, hub.limits.maxJsonBytes));
      return c.json({ errors: [], warnings: [] });
    },
  },
  {
    // Asked by every new process of the Python client until it gets an answer.
    method: "GET",
    path: "/api/agent-harnesses",
    access: "anyone",
    handle: ({ c }) => c.json({ standardEnvVars: [], harnesses: {} }),
  },
  { method: "GET", path: "/", access: "anyone", handle: ({ c }) => c.json({ service: "speedtronic hub" }) },
];
