#include "runtime/tenants/sinks/syslog.h"

#include <unistd.h>

#include <climits>
#include <optional>
#include <utility>

#include "runtime/http/base_url.h"
#include "runtime/http/client_socket.h"
#include "runtime/tenants/audit/audit_line.h"

namespace atl::sinks {
namespace {

// Facility 13 (log audit), severity 6 (informational).
constexpr char kPriority[] = "<110>1 ";

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "-";
}

class Syslog final : public Sink {
 public:
  Syslog(http::BaseUrl url, std::shared_ptr<const http::TlsContext> trust)
      : url_(std::move(url)), trust_(std::move(trust)), host_(HostName()) {}

  Status Send(const Batch& batch) override {
    // A receiver that has closed its end has perhaps not read what was sent last.
    if (socket_ && !socket_->IsQuiet()) socket_.reset();
    if (!socket_) {
      ATOLL_ASSIGN(socket_, http::ClientSocket::Connect(url_, trust_.get(), -1));
      if (!unconfirmed_.empty()) ATOLL_TRY(SendAll(unconfirmed_));
    }
    ATOLL_TRY(SendAll(batch));
    unconfirmed_ = batch;
    return {};
  }

 private:
  Status SendAll(const Batch& batch) {
    std::string bytes;
    for (const std::string& line : batch) bytes.append(SyslogMessage(line, host_));
    Status sent = socket_->SendAll(bytes);
    if (!sent) socket_.reset();
    return sent;
  }

  const http::BaseUrl url_;
  const std::shared_ptr<const http::TlsContext> trust_;
  const std::string host_;
  std::optional<http::ClientSocket> socket_;
  Batch unconfirmed_;
};

}  // namespace

std::string SyslogMessage(const std::string& line, const std::string& host) {
  const auto parsed = audit::ParseLine(line);
  std::string message(kPriority);
  message.append(parsed ? parsed->time : "-").append(" ").append(host).append(" atoll - ");
  message.append(parsed ? parsed->action : "-").append(" - ").append(line);
  return std::to_string(message.size()) + " " + message;
}

Result<std::unique_ptr<Sink>> MakeSyslog(const std::string& url,
                                         std::shared_ptr<const http::TlsContext> trust) {
  ATOLL_ASSIGN(http::BaseUrl parsed, http::ParseBaseUrl(url));
  return std::unique_ptr<Sink>(std::make_unique<Syslog>(std::move(parsed), std::move(trust)));
}

}  // namespace atl::sinks
