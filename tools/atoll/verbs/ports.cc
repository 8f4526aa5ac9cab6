// atoll port|open|forward
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/base/duration.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/json_text.h"
#include "tools/atoll/client/guard.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/report.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/verbs/port_forward.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

// A program needs some time from its start until it listens.
constexpr int kListensWithinMs = 60'000, kLookMs = 50;

struct PortOptions {
  std::string id;
  int port = 0;
  int local = -1;   // -1: the same as in the sandbox
  int expires = 0;  // seconds; 0: no signature
  bool browser = false;
};

Result<json> EndpointOf(Api& api, const PortOptions& options) {
  ATOLL_ASSIGN(const std::string id, ResolveId(api, options.id));
  const std::string path =
      "/sandboxes/" + PercentEncode(id) + "/endpoints/" + std::to_string(options.port);
  ATOLL_ASSIGN(json endpoint, Fetch(api, path));
  if (options.expires == 0) return endpoint;
  // Without secure access the port answers anybody, with or without a link.
  if (!endpoint.value("headers", json::object()).contains("OpenSandbox-Secure-Access")) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + Printable(options.id) +
                    " has no secure access: whoever reaches the server opens its ports without a "
                    "link, and would after the link has ended; make one with 'atoll run --secure' "
                    "to share, or leave out --expires");
  }
  return Fetch(api, path + "?expires=" + std::to_string(time(nullptr) + options.expires));
}

std::string UrlOf(const Api& api, const json& endpoint) {
  const char* scheme = api.trust() != nullptr ? "https://" : "http://";
  return scheme + Printable(TextOf(endpoint, "endpoint"));
}

Status Port(const Settings& settings, const PortOptions& options) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json endpoint, EndpointOf(api, options));
  if (settings.json) {
    std::puts(JsonText(endpoint).c_str());
    return {};
  }
  std::puts(UrlOf(api, endpoint).c_str());
  const json headers = endpoint.value("headers", json::object());
  for (const auto& [name, value] : headers.items()) {
    if (!value.is_string()) continue;
    std::printf("%s: %s\n", Printable(name).c_str(), Printable(value.get<std::string>()).c_str());
  }
  return {};
}

// Returns the address for a browser. A page below a path of the API has no origin, and so neither
// cookies nor storage. Browsers resolve all names below localhost to a server on this machine,
// which gives each port its own origin.
std::string BrowserUrlOf(const Api& api, const json& endpoint, int port) {
  constexpr std::string_view kApi = "/v1/sandboxes/";
  constexpr size_t kMaxLabel = 63;  // RFC 1035 section 2.3.4
  const std::string told = Printable(TextOf(endpoint, "endpoint"));
  const size_t path = std::min(told.find('/'), told.size());
  const size_t colon = told.rfind(':', path);
  const std::string host = told.substr(0, colon);
  const bool here = host == "127.0.0.1" || host == "localhost" || host == "[::1]";
  std::string name = told.substr(path);
  if (name.starts_with(kApi)) {
    // The form /v1/sandboxes/ID/proxy/PORT.
    name.erase(0, kApi.size());
    name = name.substr(0, name.find('/')) + "-" + std::to_string(port);
  } else if (!name.empty()) {
    // The form /ID/PORT/EXPIRY/SIGNATURE.
    name.erase(0, 1);
    std::replace(name.begin(), name.end(), '/', '-');
  }
  if (!here || api.trust() != nullptr || name.empty() || name.size() > kMaxLabel) {
    return UrlOf(api, endpoint) + "/";
  }
  return "http://" + name + ".localhost" + told.substr(colon, path - colon) + "/";
}

// Waits until a program listens on the port. Otherwise the page would show an error until it is
// reloaded.
Status AwaitListener(Api& api, const PortOptions& options) {
  ATOLL_ASSIGN(const std::string id, ResolveId(api, options.id));
  ATOLL_ASSIGN(const ExecdWay way, FindExecd(api, id));
  for (int waited = 0;; waited += kLookMs) {
    const auto connected = ConnectTo(api, way, options.port);
    if (connected) return {};
    if (waited >= kListensWithinMs ||
        connected.error().message().find("BACKEND_CONNECTION_FAILED") == std::string::npos) {
      return Fail(connected.error());
    }
    if (waited == 0) {
      std::fprintf(stderr, "atoll: nobody listens on port %d yet; waiting\n", options.port);
    }
    poll(nullptr, 0, kLookMs);
  }
}

Status Open(const Settings& settings, const PortOptions& options) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json endpoint, EndpointOf(api, options));
  if (!endpoint.value("headers", json::object()).empty()) {
    return Fail(
        Code::kFailedPrecondition,
        "this port is reached with headers, which a browser does not send; make a link with "
        "--expires DURATION, or use 'atoll forward " +
            Printable(options.id) + " " + std::to_string(options.port) + "'");
  }
  const std::string url = BrowserUrlOf(api, endpoint, options.port);
  if (settings.json) {
    std::puts(JsonText({{"url", url}}).c_str());
  } else {
    std::puts(url.c_str());
    if (options.expires > 0) {
      std::fprintf(stderr, "atoll: whoever has this link opens the port, for %s\n",
                   DurationText(options.expires).c_str());
    } else {
      std::fprintf(stderr,
                   "atoll: whoever reaches the server opens this port, without a key; 'atoll run "
                   "--secure' makes a sandbox whose ports ask for a token or a signed link\n");
    }
  }
  std::fflush(stdout);
  // Waits only for a user at a terminal, who opens the address next. A script may start the server
  // itself after this call.
  if (!options.browser && (settings.json || isatty(STDOUT_FILENO) == 0)) return {};
  ATOLL_TRY(AwaitListener(api, options));
  if (!options.browser) return {};
  execlp("xdg-open", "xdg-open", url.c_str(), nullptr);
  return FailSys("execute xdg-open (Debian's package xdg-utils)");
}

Status Forward(const Settings& settings, const PortOptions& options) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const std::string id, ResolveId(api, options.id));
  ATOLL_ASSIGN(ExecdWay way, FindExecd(api, id));
  const int wanted = options.local < 0 ? options.port : options.local;
  auto port = ListenHere(wanted, options.port);
  if (!port) {
    return Fail(Error(port.error().code(), port.error().message() +
                                               " (name another one behind the sandbox's, 0 for "
                                               "any)"));
  }
  if (settings.json) {
    std::puts(JsonText({{"address", "127.0.0.1"}, {"port", port->number}}).c_str());
  } else {
    std::printf("127.0.0.1:%d -> %s port %d; Ctrl-C ends it\n", port->number, id.c_str(),
                options.port);
  }
  std::fflush(stdout);
  ATOLL_ASSIGN(const std::unique_ptr<EventLoop> loop, EventLoop::Create());
  std::vector<LocalPort> ports;
  ports.push_back(*std::move(port));
  const auto target = std::make_shared<const ForwardTarget>(std::move(api), std::move(way));
  return ForwardPorts(
      *loop, [target] { return target; }, ports,
      [&settings](const Error& error) { Report(settings, error); });
}

}  // namespace

void AddPortVerbs(Verb& root, const Settings& settings) {
  const auto add = [&root](const char* names, const char* what, auto act) -> Verb& {
    const auto options = std::make_shared<PortOptions>();
    Verb& verb = root.Add(names, what)
                     .Takes(Argument{"ID", kOneSandbox, &options->id})
                     .Takes(Argument{"PORT", "Port inside; every one is reached", &options->port,
                                     true, Range{1, 65535}});
    act(verb, options);
    return verb;
  };
  add("port,endpoint", "Where a port of a sandbox is reached",
      [&](Verb& verb, const std::shared_ptr<PortOptions>& options) {
        verb.Says(
                "Prints the address, then the headers that a request to it needs, one a line.\n\n"
                "Examples:\n"
                "  atoll port web 8000\n"
                "  curl $(atoll port web 8000)/index.html      # of one that needs no headers")
            .Does([options, &settings] { return Port(settings, *options); });
      });
  add("open", "The URL of a port of a sandbox, for a browser",
      [&](Verb& verb, const std::shared_ptr<PortOptions>& options) {
        verb.Takes(Option{"--expires", "DURATION",
                          "A signed link that ends then, for sharing a port of a sandbox made "
                          "with 'run --secure'",
                          &options->expires, Seconds(1, 365 * 86400)})
            .Takes(
                Option{"--browser", "", "Open it, too, once somebody listens", &options->browser})
            .Says(
                "Without --expires the URL is that of a port which whoever reaches the server "
                "opens, without a key; a sandbox made with 'run --secure' has none such. "
                "At a terminal it ends once somebody listens. "
                "What needs cookies or a service worker needs an origin of its own. A server on "
                "this "
                "machine gives it one (ID-PORT.localhost); elsewhere let the server tell host "
                "names "
                "(ingress.mode), or use 'atoll forward'.")
            .Does([options, &settings] { return Open(settings, *options); });
      });
  add("forward", "Listen here, and be a port of a sandbox",
      [&](Verb& verb, const std::shared_ptr<PortOptions>& options) {
        verb.Takes(Argument{"LOCAL", "Port of 127.0.0.1; the same if left out, 0 for any",
                            &options->local, false, Range{0, 65535}})
            .Says("Every protocol over TCP: databases, debuggers, ssh. Ends with Ctrl-C.")
            .Does([options, &settings] { return Forward(settings, *options); });
      });
}

}  // namespace atl::cli
