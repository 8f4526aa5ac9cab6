// What the answer of a server in a sandbox may say to a browser: nothing that holds beyond that
// server. Bodies are not looked at, but for the addresses that debuggers tell of themselves.
//
// In the path and header forms a page would have our own origin, and that of every other sandbox.
// It gets none: the policy "sandbox" without allow-same-origin makes each page an origin that
// equals no other, not even itself: no cookie, no storage, no service worker, and "Origin: null" on
// all that it asks. In the host form each port has an origin already.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/api/ingress/ingress.h"
#include "runtime/http/message.h"

namespace atl::api {

struct ProxiedAnswer {
  RouteForm form = RouteForm::kProxy;
  bool of_execd = false;  // it sends no one elsewhere
  bool tls = false;       // the client's connection to us
  std::string host;       // our name, as the client wrote it in Host
  std::string inside;     // the server's name, as we wrote it there: "localhost:8000"
  std::string prefix;     // what stands before its paths on our side; "" where that is nothing
  std::string path;       // that was asked for, as the server saw it

  // A browser shows the answer as a page, or in a frame.
  bool is_page = false;
  // Where the same page has an origin: the host form of its address. Empty: there is no such place.
  std::string own_origin;
  std::string name;  // "ID PORT", for people

  // Takes away what speaks for a whole host or origin, keeps redirects below the prefix, and adds
  // the policy. `status` may be an interim one.
  void Confine(int status, http::Headers* answer) const;

  // Where a redirect to `to` leads: names of the server itself and paths end up below the prefix,
  // other sites stay as they are. Nothing: browsers and we may disagree on where that is.
  std::optional<std::string> Redirect(std::string_view to) const;

  // True: the answer may be a page that cannot work without an origin.
  bool MayNeedOrigin() const { return is_page && form != RouteForm::kHost && !of_execd; }
  // A page of ours that says so in words and where the page works, if `body` is one that would stay
  // white: it has its program in script modules, which a browser fetches by CORS, with no origin to
  // allow. Nothing: it may work.
  std::optional<std::string> ExplainOrigin(const http::Headers& fields,
                                           std::string_view body) const;

  // DevTools (of Chromium, of Node) answer "/json/version" and "/json/list" with the address of a
  // WebSocket, made of the Host that they were asked by. True: this may be one of these answers.
  bool MayTellDebugger() const;
  // The body with the address by which it is reached from where it was asked: through us.
  std::string TellDebugger(std::string body) const;
};

}  // namespace atl::api
