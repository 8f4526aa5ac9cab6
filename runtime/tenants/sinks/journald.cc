#include "runtime/tenants/sinks/journald.h"

#include <sys/socket.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json_text.h"
#include "runtime/base/unique_fd.h"
#include "runtime/base/unix_address.h"
#include "runtime/tenants/sinks/line_json.h"

namespace atl::sinks {
namespace {

// A value without newlines, which the lines of the log do not have.
void AddField(const char* name, const std::string& value, std::string* message) {
  if (!value.empty()) message->append(name).append("=").append(value).append("\n");
}

std::string MessageOf(const std::string& text) {
  const nlohmann::json line = JsonOrNull(text);
  std::string message;
  const bool good = line.is_object() && line.value("outcome", "") == "success";
  AddField("PRIORITY", good ? "6" : "4", &message);
  AddField("SYSLOG_IDENTIFIER", "atoll-audit", &message);
  AddField("SYSLOG_FACILITY", "13", &message);
  AddField("MESSAGE", text, &message);
  if (!line.is_object()) return message;
  AddField("ATOLL_SEQ", std::to_string(line.value("seq", uint64_t{0})), &message);
  // Escapes of the line are undone by now, and a newline would forge a field.
  for (const auto& [name, value] : {std::pair{"ATOLL_ACTION", line.value("action", "")},
                                    {"ATOLL_OUTCOME", line.value("outcome", "")},
                                    {"ATOLL_TENANT", line.value("tenant", "")},
                                    {"ATOLL_ACTOR", PartOf(line, "actor", "id")},
                                    {"ATOLL_TARGET", PartOf(line, "target", "id")},
                                    {"ATOLL_REQUEST", line.value("request", "")},
                                    {"ATOLL_HASH", line.value("hash", "")}}) {
    if (value.find('\n') == std::string::npos) AddField(name, value, &message);
  }
  return message;
}

class Journald final : public Sink {
 public:
  Journald(UniqueFd socket, std::string path)
      : socket_(std::move(socket)), path_(std::move(path)) {}

  Status Send(const Batch& batch) override {
    ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(path_));
    for (const std::string& line : batch) {
      const std::string message = MessageOf(line);
      if (::sendto(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
        return FailSys("send to the journal");
      }
    }
    return {};
  }

 private:
  const UniqueFd socket_;
  const std::string path_;
};

}  // namespace

Result<std::unique_ptr<Sink>> MakeJournald(const std::string& socket) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return FailSys("socket");
  return std::unique_ptr<Sink>(std::make_unique<Journald>(std::move(fd), socket));
}

}  // namespace atl::sinks
