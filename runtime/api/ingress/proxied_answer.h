// Confines the answer of a server in a sandbox: a browser must take nothing from it that holds
// beyond that server. Bodies pass unchanged, except for the addresses that debuggers report of
// themselves.
//
// A page in the path or header form would share our origin with the API and with every other
// sandbox. So it gets no origin: the policy "sandbox" without allow-same-origin gives each page an
// origin that equals no other, not even itself. Such a page has no cookie, no storage and no
// service worker, and it sends "Origin: null" with all its requests. In the host form each port
// already has its own origin.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/api/ingress/ingress.h"
#include "runtime/http/message.h"

namespace atl::api {

struct ProxiedAnswer {
  RouteForm form = RouteForm::kProxy;
  bool of_execd = false;  // an answer of execd, which never redirects
  bool tls = false;       // the client's connection uses TLS
  std::string host;       // the daemon's name in the client's Host
  std::string inside;     // the Host that the server got: "localhost:8000"
  std::string prefix;     // path before the server's paths, or ""
  std::string path;       // the requested path, as the server saw it

  // True: a browser shows the answer as a page, or in a frame.
  bool is_page = false;
  // The host form of the page's address, where the page has an origin. Empty: no host form.
  std::string own_origin;
  std::string name;  // "ID PORT", for messages

  // Removes headers that affect a whole host or origin, keeps redirects below the prefix, and adds
  // the policy. `status` may be an interim status.
  void Confine(int status, http::Headers* answer) const;

  // Returns the target of a redirect to `to`. Paths and the server's own names are moved below the
  // prefix; other sites stay. Nothing: a browser and the daemon might parse `to` differently.
  std::optional<std::string> Redirect(std::string_view to) const;

  // Returns true if the answer may be a page that cannot work without an origin.
  bool MayNeedOrigin() const { return is_page && form != RouteForm::kHost && !of_execd; }
  // Returns a page that explains the missing origin and links to the address where the page works,
  // if `body` would stay blank: its program is in script modules, which a browser fetches by CORS,
  // and there is no origin to allow. Nothing: the page may work.
  std::optional<std::string> ExplainOrigin(const http::Headers& fields,
                                           std::string_view body) const;

  // Returns true for answers that may contain a debugger's address. DevTools of Chromium and Node
  // answer "/json/version" and "/json/list" with a WebSocket address made from the request's Host.
  bool MayTellDebugger() const;
  // Returns the body with the WebSocket address replaced by the one that the client can reach.
  std::string TellDebugger(std::string body) const;
};

}  // namespace atl::api
