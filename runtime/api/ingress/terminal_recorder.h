// Records terminals (execd's /pty/{id}/ws) as they pass the proxy, where nothing in the sandbox can
// change or leave out what the client sees. Recorded is the output that the client gets, and what
// it types only if the policy says so, because people type secrets.
//
// Terminals of servers in the sandbox, such as sshd, are bytes of a port and are not recorded.
//
// Thread rule: on the loop.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/api/gate/call.h"
#include "runtime/http/server.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/sandboxes.h"

namespace atl::api {

// The values of audit.record_pty.
enum class RecordPty : uint8_t { kOff, kOutput, kInput };

class TerminalRecorder {
 public:
  // `refuses`: a terminal that cannot be recorded is refused, and ended.
  TerminalRecorder(sandbox::Sandboxes& sandboxes, std::shared_ptr<Auditor> auditor,
                   RecordPty policy, bool refuses)
      : sandboxes_(sandboxes), auditor_(std::move(auditor)), policy_(policy), refuses_(refuses) {}
  TerminalRecorder(const TerminalRecorder&) = delete;
  TerminalRecorder& operator=(const TerminalRecorder&) = delete;

  RecordPty policy() const { return policy_; }

  // Has the terminal recorded, if the request opens one. `upstream` is what execd will get. The
  // line of the audit log names the recording. Returns false after it has refused the call.
  bool Record(const Call& call, const sandbox::Sandbox& sandbox, http::Upstream* upstream);

 private:
  sandbox::Sandboxes& sandboxes_;
  const std::shared_ptr<Auditor> auditor_;
  const RecordPty policy_;
  const bool refuses_;
};

}  // namespace atl::api
