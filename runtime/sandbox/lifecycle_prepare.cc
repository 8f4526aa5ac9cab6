// From a request to the record of the sandbox that it asks for.
#include <utility>

#include "cgroup/limits_text.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/sandbox/access_token.h"
#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {
namespace {

// execve(2): one string may have 32 pages. All of them share a quarter of the stack limit with the
// commands that clients add later.
constexpr size_t kMaxArgument = 128 << 10;
constexpr size_t kMaxArguments = 512 << 10;
// The end of the year 9999: what RFC 3339 can write.
constexpr int64_t kLastMoment = 253402300799000;

Status CheckArguments(const CreateSpec& spec) {
  size_t total = 0;
  const auto check = [&](const std::string& what, size_t size) -> Status {
    total += size;
    if (size >= kMaxArgument) {
      return Fail(Code::kInvalidArgument, what + " is " + std::to_string(size) +
                                              " bytes long, allowed are " +
                                              std::to_string(kMaxArgument - 1));
    }
    return {};
  };
  for (const std::string& argument : spec.entrypoint) {
    if (argument.find('\0') != std::string::npos) {
      return Fail(Code::kInvalidArgument, "entrypoint: an argument holds a NUL character");
    }
    ATOLL_TRY(check("entrypoint: an argument", argument.size()));
  }
  if (spec.entrypoint.empty() || spec.entrypoint.front().empty()) {
    return Fail(Code::kInvalidArgument, "entrypoint: its first element must name a program");
  }
  for (const auto& [name, value] : spec.env) {
    if (name.empty() || name.find('=') != std::string::npos ||
        name.find('\0') != std::string::npos || value.find('\0') != std::string::npos) {
      return Fail(Code::kInvalidArgument,
                  "env '" + name.substr(0, 64) +
                      "': a name must not be empty or hold '=', and neither name nor value a NUL");
    }
    ATOLL_TRY(check("env " + name.substr(0, 64), name.size() + value.size() + 1));
  }
  if (total > kMaxArguments) {
    return Fail(Code::kInvalidArgument, "entrypoint and env are " + std::to_string(total) +
                                            " bytes together, allowed are " +
                                            std::to_string(kMaxArguments));
  }
  return {};
}

Status CheckPlatform(const std::optional<Platform>& asked, const std::string& image_arch,
                     const std::string& image, const std::string& host_arch) {
  if (asked && asked->os != "linux") {
    return Fail(Code::kInvalidArgument,
                "platform.os '" + asked->os + "' is not offered here; use linux");
  }
  if (asked && asked->arch != host_arch) {
    return Fail(Code::kInvalidArgument,
                "platform.arch '" + asked->arch + "' cannot run here; this host is " + host_arch);
  }
  if (!image_arch.empty() && image_arch != host_arch) {
    return Fail(Code::kInvalidArgument, "image " + image + " is for " + image_arch +
                                            "; this host is " + host_arch +
                                            ": import it for that architecture");
  }
  return {};
}

}  // namespace

Result<Lifecycle::Entry> Lifecycle::Prepare(const CreateSpec& spec) const {
  ATOLL_TRY(CheckArguments(spec));
  Entry entry;
  Sandbox& s = entry.sandbox;
  s.platform = spec.platform;
  if (auto image = images_.Find(spec.image)) {
    ATOLL_TRY(UseImage(&entry, std::move(*image)));
  } else {
    ATOLL_ASSIGN(entry.awaited, AwaitedImage(spec.image, image.error()));
    s.image = entry.awaited;
  }
  ATOLL_ASSIGN(s.limits, cgroup::ParseLimits(spec.resource_limits, config_.defaults,
                                             config_.limits_available));
  ATOLL_TRY(CheckBudget(config_.budget, held_, s.limits));
  const int64_t now = clock_.UnixMillis();
  if (spec.timeout_seconds) {
    if (config_.max_timeout_seconds && *spec.timeout_seconds > *config_.max_timeout_seconds) {
      return Fail(Code::kInvalidArgument, "timeout " + std::to_string(*spec.timeout_seconds) +
                                              " s is longer than this server allows: at most " +
                                              std::to_string(*config_.max_timeout_seconds) + " s");
    }
    if (*spec.timeout_seconds > (kLastMoment - now) / 1000) {
      return Fail(Code::kInvalidArgument,
                  "timeout " + std::to_string(*spec.timeout_seconds) + " s ends after year 9999");
    }
    s.expires_at_ms = now + *spec.timeout_seconds * 1000;
  }
  s.id = spec.id.empty() ? NewSandboxId() : spec.id;
  s.entrypoint = spec.entrypoint;
  s.env = spec.env;
  s.extensions = spec.extensions;
  s.metadata = spec.metadata;
  for (const VolumeMount& mount : spec.volumes) s.volumes.push_back(mount.volume);
  s.readonly_root = spec.readonly_root;
  if (config_.access_tokens) s.access_token = NewAccessToken();
  if (spec.secure_access) s.secure_token = NewAccessToken();
  s.renew_by_seconds = spec.renew_by_seconds;
  s.network = spec.network;
  s.network.sandbox = s.id;
  ATOLL_TRY(network_.CheckRequest(s.network));
  s.created_at_ms = now;
  s.transition_at_ms = now;
  s.reason = entry.awaited.empty() ? "CONTAINER_STARTING" : "IMAGE_IMPORTING";
  s.message = entry.awaited.empty() ? "Sandbox is being built" : "Its image is being imported";
  entry.asked_us = clock_.BootMicros();
  entry.request_id = spec.request_id;
  entry.idempotency_key = spec.idempotency_key;
  entry.fingerprint = spec.fingerprint;
  return entry;
}

Status Lifecycle::UseImage(Entry* entry, images::Image image) const {
  Sandbox& s = entry->sandbox;
  ATOLL_TRY(CheckPlatform(s.platform, image.config.architecture, image.name, config_.host_arch));
  s.image = image.name;
  s.image_digest = image.digest;
  s.layers = std::move(image.layers);
  entry->config = std::move(image.config);
  return {};
}

bool Lifecycle::Repeated(const CreateSpec& spec, Created& done) {
  if (spec.idempotency_key.empty()) return false;
  const KeyRecord* record = idempotency_.Find(spec.idempotency_key);
  if (record == nullptr) return false;
  if (record->fingerprint != spec.fingerprint) {
    done(
        Fail(Code::kAlreadyExists, "Idempotency-Key '" + spec.idempotency_key +
                                       "' was used with another request before; choose a new one"));
    return true;
  }
  Entry* entry = Look(record->sandbox_id);
  if (entry == nullptr || entry->sandbox.state == State::kStopping) {
    done(Fail(Code::kAlreadyExists, "sandbox " + record->sandbox_id +
                                        ", made by the first request with this Idempotency-Key, "
                                        "has been deleted or has expired"));
  } else if (entry->sandbox.state == State::kPending && !entry->stored) {
    entry->created.push_back(std::move(done));
  } else {
    done(entry->sandbox);
  }
  return true;
}

}  // namespace atl::sandbox
