#include "netpolicy/intercept/program.h"

#include <sys/stat.h>

#include <string>
#include <utility>

#include "netpolicy/intercept/confine.h"
#include "netpolicy/vault/wire_json.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/base/wiping_memory.h"

namespace atl::intercept {
namespace {

Result<Message> Receive(int line) {
  ATOLL_ASSIGN(sys::Message received, sys::ReceiveMessage(line, kMaxMessage));
  if (received.bytes.empty()) return Fail(Code::kUnavailable, "the daemon has closed the line");
  Message message;
  if (!wire::DecodeFields(received.bytes, &message, received.fds)) {
    return Fail(Code::kInvalidArgument, "malformed message from the daemon");
  }
  return message;
}

Result<std::shared_ptr<const vault::Vault>> ReadVault(int memfd) {
  struct stat info {};
  if (::fstat(memfd, &info) != 0) return FailSys("fstat of a vault");
  ATOLL_ASSIGN(const std::string bytes, sys::ReadAll(memfd, static_cast<size_t>(info.st_size)));
  ATOLL_ASSIGN(vault::Vault read, vault::Decode(bytes));
  return std::make_shared<const vault::Vault>(std::move(read));
}

struct Begun {
  std::unique_ptr<Certificates> certificates;
  std::shared_ptr<const http::TlsContext> trust;
  std::unique_ptr<http::PooledLoop> loop;
};

Result<Begun> MakeReady(int line) {
  Begun begun;
  ATOLL_ASSIGN(Message first, Receive(line));
  const auto* begin = std::get_if<Begin>(&first.value);
  if (begin == nullptr) return Fail(Code::kInvalidArgument, "no Begin");
  // OpenSSL reads files by path. The daemon may see other files than this process, so it has opened
  // this one.
  ATOLL_ASSIGN(begun.trust, http::TlsContext::ForClient("/proc/self/fd/" +
                                                        std::to_string(begin->authorities.get())));
  ATOLL_ASSIGN(begun.certificates, Certificates::Create(begin->authority));
  // Makes OpenSSL read and look up now what it loads on first use.
  ATOLL_TRY(begun.certificates->For("first.invalid"));
  ATOLL_ASSIGN(begun.loop, http::PooledLoop::Create(0));
  ATOLL_TRY(Confine());
  return begun;
}

class Line {
 public:
  Line(UniqueFd fd, Shared& shared) : fd_(std::move(fd)), shared_(shared) {}

  Status Watch() {
    ATOLL_TRY(shared_.loop.events().Watch(fd_.get(), EPOLLIN, [this](uint32_t) { OnReadable(); }));
    return {};
  }

 private:
  void OnReadable() {
    ReadMessage();
    // A vault may have been read and decoded on the stack.
    WipeStack();
  }

  void ReadMessage() {
    auto message = Receive(fd_.get());
    if (!message) {
      if (message.error().error_number() == EAGAIN) return;
      return shared_.loop.Quit();
    }
    if (auto* flow = std::get_if<Serve>(&message->value)) {
      return ServeFlow(shared_, std::move(*flow));
    }
    const auto* set = std::get_if<SetVault>(&message->value);
    auto vault = set != nullptr ? ReadVault(set->vault.get())
                                : Fail(Code::kInvalidArgument, "a second Begin");
    if (vault) {
      shared_.redactor = std::make_shared<const vault::Redactor>(**vault);
      shared_.vault = std::move(*vault);
      return;
    }
    // The former vault may hold credentials that must no longer be used, so the interceptor ends.
    LogLine(LogLevel::kError, "the interceptor exits: it cannot use the new vault")
        .Add(vault.error());
    shared_.loop.Quit();
  }

  const UniqueFd fd_;
  Shared& shared_;
};

}  // namespace

Status Run(UniqueFd line) {
  auto begun = MakeReady(line.get());
  if (!begun) {
    (void)sys::SendMessage(line.get(), begun.error().message());
    return Fail(begun.error());
  }
  Shared shared{*begun->loop, *begun->certificates, begun->trust,
                std::make_shared<const vault::Vault>(),
                std::make_shared<const vault::Redactor>(vault::Vault())};
  const int answer_to = line.get();
  Line messages(std::move(line), shared);
  ATOLL_TRY(messages.Watch());
  ATOLL_TRY(sys::SendMessage(answer_to, kReady));
  begun->loop->Run();
  return {};
}

}  // namespace atl::intercept
