// Login and actions. The token of the session goes into a header, which no page of another site can send.

import { ask, post, reason } from "./ask.js";
import { MODES } from "./store.js";
import { element } from "./tables.js";

export class Controls {
  constructor(into) {
    this.into = into;
    this.token = null;
    this.about = null;
    [this.isKnown, this.isAsking] = [true, false];
    this.said = element("p", "", { class: "outcome", role: "status" });
  }

  /** Takes /about of another run of the server. */
  begin(about) {
    if (this.about?.boot === about.boot) return;
    this.about = about;
    this.isKnown = !about.controls;
    const text = this.isKnown
      ? "Read-only. With users (-Y FILE) the server offers a login here."
      : "Asking who is logged in.";
    this.into.replaceChildren(element("p", text));
  }

  /** Asks who is logged in, until the server has answered that. Nothing waits for it. */
  async look() {
    if (this.isKnown || this.isAsking) return;
    const { about } = this;
    this.isAsking = true;
    const session = await ask("session").catch(() => null);
    this.isAsking = false;
    if (!session || about !== this.about) return;
    this.isKnown = true;
    this.enter(session);
  }

  enter({ user, token }) {
    this.token = token ?? null;
    this.isSet = false;
    this.into.replaceChildren(...(user ? this.actions(user) : [this.login()]), this.said);
  }

  /** Lets the choices begin with what the server does. */
  observe(store) {
    const { mode, balance } = Object.fromEntries([...this.into.querySelectorAll("select")].map((it) => [it.name, it]));
    if (this.isSet || !mode) return;
    this.isSet = true;
    mode.value = MODES[store.partitions[0]?.mode] ?? mode.value;
    balance.value = store.state.auto ? "auto" : "off";
  }

  async post(path, body) {
    this.said.className = "outcome";
    this.said.textContent = "…";
    try {
      const { status, ok, text } = await post(path, body, this.token);
      if (status === 401 && this.token) this.enter({ user: null });
      if (!ok) throw new Error(text);
      const begun = status === 202;
      this.said.textContent = path !== "control" ? "" : begun ? text : `Done. ${text}`;
      return text;
    } catch (error) {
      this.said.className = "outcome bad";
      this.said.textContent = reason(error);
      return null;
    }
  }

  login() {
    const form = element("form", null, { class: "login" });
    const [user, password] = [
      input("User", { name: "user", autocomplete: "username", required: "" }),
      input("Password", { name: "password", type: "password", autocomplete: "current-password", required: "" }),
    ];
    form.append(user.label, password.label, element("button", "Log in", { type: "submit" }));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const text = await this.post("login", { user: user.field.value, password: password.field.value });
      password.field.value = "";
      if (text !== null) this.enter(JSON.parse(text));
    });
    return form;
  }

  actions(user) {
    const { about } = this;
    const who = element("p", `Logged in as ${user}. `);
    const out = element("button", "Log out", { type: "button" });
    out.addEventListener("click", async () => {
      if (await this.post("logout", {}) !== null) this.enter({ user: null });
    });
    who.append(out);
    const made = [who];
    if (about.workers > 1) {
      made.push(this.form("Access mode", "Change", [choice("Mode", "mode", MODES)], "mode"));
      made.push(this.form("Balance", "Change", [choice("Balance by load", "balance", ["off", "auto"])], "balance"));
    }
    if (about.files) {
      made.push(this.form("Snapshot", "Begin", [input("Name", { name: "name", required: "" })], "snapshot"));
      made.push(this.form("Recording", "Begin", [
        input("Name", { name: "name", required: "" }),
        input("Part of the keys", { name: "fraction", value: "0.01", inputmode: "decimal", required: "" }),
        input("Seconds", { name: "seconds", type: "number", min: "1", max: "86400", value: "600", required: "" }),
      ], "record"));
      made.push(this.form("", "Stop the recording", [], "stop-recording"));
    } else {
      made.push(element("p", "Snapshots and recordings need a directory: --admin-files DIRECTORY.", { class: "dim" }));
    }
    if (about.flush) {
      const question = "This discards all items of the namespace. Flush it?";
      const field = input("Namespace", { name: "namespace", required: "" });
      made.push(this.form("Flush a namespace", "Flush", [field], "flush", question));
    }
    return made;
  }

  form(title, button, fields, action, question = null) {
    const form = element("form", null);
    const group = element("fieldset", null);
    if (title) group.append(element("legend", title));
    group.append(...fields.map(({ label }) => label), element("button", button, { type: "submit" }));
    form.append(group);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (question && !window.confirm(question)) return;
      const body = { action };
      fields.forEach(({ field }) => {
        body[field.name] = field.type === "number" ? Number(field.value) : field.value;
      });
      await this.post("control", body);
    });
    return form;
  }
}

function input(text, attributes) {
  const label = element("label", null);
  const field = element("input", null, { type: "text", ...attributes });
  label.append(element("span", text), field);
  return { label, field };
}

function choice(text, name, values) {
  const label = element("label", null);
  const field = element("select", null, { name });
  field.append(...values.map((value) => element("option", value)));
  label.append(element("span", text), field);
  return { label, field };
}
