#include "runtime/sandbox/stock/preparations.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "runtime/base/descriptors.h"
#include "runtime/sandbox/output/execd_line.h"

namespace atl::sandbox {
namespace {

// Time beyond execd's own limit. execd's error tells more, so it should come first.
constexpr int64_t kGraceUs = 10'000'000;
// Limit of the sandbox's own text that is shown and stored.
constexpr size_t kMaxShown = 2048;

// Returns the status of the complete answer.
Status StatusOf(const std::string& answer) {
  constexpr std::string_view kDone = "HTTP/1.1 200 ", kFailed = "HTTP/1.1 500 ";
  const size_t head = answer.find("\r\n\r\n");
  if (head != std::string::npos && answer.starts_with(kDone)) return {};
  if (head == std::string::npos || !answer.starts_with(kFailed)) {
    return Fail(Code::kUnavailable, "its execd ended without an answer");
  }
  return Fail(Code::kFailedPrecondition, answer.substr(head + 4, kMaxShown));
}

}  // namespace

Preparations::~Preparations() {
  while (!asked_.empty()) GiveUp(asked_.begin()->first);
}

void Preparations::Begin(const std::string& id, const std::string& execd_socket,
                         const std::string& access_token, const wire::Preparation& wanted,
                         Done done) {
  Asked& asked = asked_[id];
  asked.done = std::move(done);
  const Status sent = Ask(asked, id, execd_socket, access_token, wanted);
  const int64_t patience =
      sent ? int64_t{wanted.timeout_seconds} * 1'000'000 + kGraceUs : int64_t{0};
  const Status late =
      sent ? Fail(Code::kUnavailable, "its execd does not answer") : Status(Fail(sent.error()));
  asked.deadline = loop_.After(patience, [this, id, late] { End(id, late); });
}

Status Preparations::Ask(Asked& asked, const std::string& id, const std::string& execd_socket,
                         const std::string& access_token, const wire::Preparation& wanted) {
  ATOLL_ASSIGN(asked.socket, ConnectToExecd(execd_socket));
  if (IsPastSandboxes(asked.socket.get())) {
    return Fail(NoDescriptors("a template's sandbox", asked.socket.get()));
  }
  ATOLL_TRY(SendRequest(asked.socket.get(), "POST " + std::string(wire::kPrepareRoute),
                        access_token, wire::EncodeFields(wanted)));
  asked.watch = loop_.WatchReadable(asked.socket.get(), [this, id] { OnReadable(id); });
  return {};
}

void Preparations::OnReadable(const std::string& id) {
  const auto found = asked_.find(id);
  if (found == asked_.end()) return;
  std::string& answer = found->second.answer;
  char chunk[4096];
  const ssize_t n = ::recv(found->second.socket.get(), chunk, sizeof chunk, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) answer.append(chunk, static_cast<size_t>(n));
  if (n > 0 && answer.size() < wire::kMaxPreparationAnswer) return;
  End(id, StatusOf(answer));
}

void Preparations::End(const std::string& id, Status status) {
  const auto found = asked_.find(id);
  if (found == asked_.end()) return;
  const Done done = std::move(found->second.done);
  GiveUp(id);
  done(std::move(status));
}

void Preparations::GiveUp(const std::string& id) {
  const auto found = asked_.find(id);
  if (found == asked_.end()) return;
  loop_.Unwatch(found->second.watch);
  loop_.Cancel(found->second.deadline);
  asked_.erase(found);
}

}  // namespace atl::sandbox
