// A daemon of a group's own with an image in it, and its clients. The phases of the API start with
// a Lab.
//
// Thread rule: one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/own_daemon.h"
#include "bench/phase.h"
#include "bench/sandbox_api.h"
#include "runtime/base/result.h"

namespace atl::bench {

inline constexpr int kRestMs = 30;
inline constexpr char kBusyboxImage[] = "bench-busybox:1";
inline constexpr char kDebianImage[] = "bench-debian:12";
inline constexpr char kPoolName[] = "bench";

struct Lab {
  std::unique_ptr<OwnDaemon> daemon;
  std::optional<SandboxApi> api;
  std::optional<LeanClient> client;  // sends to any route, with the API key

  Status Open(const Setting& setting, const std::vector<std::string>& options = {}) {
    ATOLL_ASSIGN(daemon, OwnDaemon::Start(setting.programs + "/atolld", options));
    ATOLL_ASSIGN(api, daemon->Connect());
    ATOLL_ASSIGN(client, LeanClient::Connect(daemon->port(),
                                             "OPEN-SANDBOX-API-KEY: " + daemon->key() + "\r\n"));
    return api->ImportImage(kBusyboxImage, setting.busybox);
  }
  // Creates a sandbox, finds its execd and runs a first command in it.
  Result<Sandbox> Create(const std::string& image, const std::string& limits = "{}") {
    ATOLL_ASSIGN(Sandbox sandbox, api->Create(image, limits));
    ATOLL_TRY(api->FindExecd(&sandbox));
    ATOLL_TRY(api->Echo(sandbox));
    return sandbox;
  }
};

// Returns a phase that waits until the pool of slots is full and the disk is idle.
inline Phase Quiet(const std::shared_ptr<Lab>& lab) {
  return {.run = [lab](Take&) { return lab->api->AwaitQuiet(); }};
}

}  // namespace atl::bench
