// Requests to the server. Each has a deadline, for a server that hangs does not refuse.

const PATIENCE_MS = 5000;
/** An action is answered when it has ended. */
const ACTION_PATIENCE_MS = 60_000;

/** Returns the JSON of a path. */
export async function ask(path) {
  const reply = await fetch(path, { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
  if (!reply.ok) throw new Error(reply.status === 503 ? (await reply.text()).trim() : `status ${reply.status}`);
  return reply.json();
}

/** Sends an action. Returns the reply's status, whether it is good, and its text. */
export async function post(path, body, token) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers["X-Micanite-Token"] = token;
  const signal = AbortSignal.timeout(ACTION_PATIENCE_MS);
  const reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  const text = (await reply.text()).trim();
  return { status: reply.status, ok: reply.ok, text: text || reply.statusText };
}

/** Returns why a request has failed. */
export function reason(error) {
  return error.name === "TimeoutError" ? "it took too long" : error.message;
}
