// Signs in and out. The token is sent once, in exchange for a session cookie that scripts cannot
// read, and is kept nowhere in the page.
import { el, plain, button, say } from "./dom.js";
import { session, signIn, signOut } from "./api.js";

// signInForm calls done after a sign-in.
export function signInForm(done, cancel) {
  const input = el("input", { type: "password", id: "token", autocomplete: "off", required: true, "aria-describedby": "token-hint" });
  const fault = el("p", { class: "fault", role: "alert", hidden: true });
  const send = el("button", { type: "submit", class: "main" }, "Sign in");
  const submit = async (e) => {
    e.preventDefault();
    send.disabled = true;
    try {
      await signIn(input.value.trim());
      say("Signed in.");
      done();
    } catch (error) {
      fault.hidden = false;
      fault.textContent = plain(error.message);
      send.disabled = false;
      input.select();
    }
  };
  return el("form", { class: "fields", onsubmit: submit }, el("label", { for: "token" }, "Token"), input,
    el("p", { class: "faint", id: "token-hint" }, "A token of weir's --admin-token-file, --intake-token-file or --access-file. The browser stays signed in for 12 hours; the page does not keep the token."),
    fault, el("div", { class: "bar" }, send, cancel && button("Cancel", cancel)));
}

// openSignIn asks for a token in a dialog, over the page as it is.
export function openSignIn(done) {
  const dialog = el("dialog", { "aria-labelledby": "signin" }, el("h2", { id: "signin" }, "Sign in"), signInForm(() => {
    dialog.close();
    done();
  }, () => dialog.close()));
  dialog.addEventListener("close", () => dialog.remove());
  document.getElementById("main").append(dialog);
  dialog.showModal();
}

// account shows in the header as whom this browser is signed in.
export function account(node, reopen) {
  const draw = () => {
    const until = session.expires && `signed in until ${session.expires.slice(0, 16).replace("T", " ")} UTC`;
    node.replaceChildren(...(session.name ? [el("span", { class: "faint", title: until ?? "by a client certificate" }, plain(session.name), session.roles?.length ? ` (${plain(session.roles.join(", "))})` : "")] : []),
      ...(session.expires ? [button("Sign out", () => signOut().then(reopen, (error) => say(plain(error.message))))]
        : session.sign_in && !document.querySelector("main > form #token") ? [button("Sign in", () => openSignIn(reopen))] : []));
  };
  document.addEventListener("session", draw);
}
