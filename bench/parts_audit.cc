// Measures a line of the audit log: formatted, chained and written.
#include <fcntl.h>
#include <stdlib.h>

#include <memory>
#include <string>

#include "bench/parts.h"
#include "runtime/base/clock.h"
#include "runtime/base/health.h"
#include "runtime/base/sys.h"
#include "runtime/http/pooled_loop.h"
#include "runtime/tenants/audit/audit_log.h"

namespace atl::bench {
namespace {

// A log in a directory of its own, which goes with it.
struct Log {
  Log() {
    char name[] = "/var/tmp/atoll-bench-XXXXXX";
    if (::mkdtemp(name) == nullptr) return;
    directory = name;
    auto made = http::PooledLoop::Create(1);
    if (!made) return;
    loop = std::move(*made);
    auto opened = audit::AuditLog::Open(*loop, SystemClock(), health, {.directory = directory});
    if (opened) log = std::move(*opened);
  }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log() {
    log.reset();
    if (!directory.empty()) static_cast<void>(sys::RemoveTree(AT_FDCWD, directory));
  }

  std::string directory;
  Health health;
  std::unique_ptr<http::PooledLoop> loop;
  std::unique_ptr<audit::AuditLog> log;
};

audit::Event CommandEvent() {
  return {.action = "exec.command",
          .outcome = "success",
          .status = 200,
          .tenant = "red",
          .actor = {.kind = "key", .id = "k_ab12cd34", .role = "developer"},
          .from = {"10.1.2.3", "OpenSandbox-Python-SDK/1.1.1", "tls"},
          .target = {"sandbox", "7ff6d3ab-94f0-4dfc-8d0c-51c2c1a5a0aa", "", "python:3.11"},
          .request = "e485e485e485e485e485e485e485e485",
          .what = {{"argv0", "sh"},
                   {"argc", 3},
                   {"argv_hmac", std::string(64, 'b')},
                   {"cwd", "/w"},
                   {"uid", 0}},
          .took_us = 1834};
}

}  // namespace

void AddAuditParts(Phases* phases) {
  constexpr int kSamples = 50, kTimes = 1000;
  phases->push_back(Part("audit line", "formatted, chained, written", kSamples, kTimes,
                         [log = std::make_shared<Log>(), event = CommandEvent()]() -> Status {
                           if (!log->log) return Fail(Code::kUnavailable, "no audit log");
                           log->log->Write(event);
                           return {};
                         }));
  phases->back().series.front().bounds = {{.at_most = 3}};
}

}  // namespace atl::bench
