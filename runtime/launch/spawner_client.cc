#include "runtime/launch/spawner_client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/base/sys.h"

namespace atl::launch {
namespace {

using wire::Reply;
using wire::Request;
using wire::RequestType;

Result<UniqueFd> ConnectSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Fail(Code::kInvalidArgument,
                "'" + path + "' is too long for a socket: choose a shorter run_dir");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return FailSys("socket");
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("connect " + path);
  }
  return socket;
}

std::string Prefix(wire::Step step) {
  return "step " + std::string(wire::StepName(step)) + ": ";
}

Error ErrorOf(const Reply& reply) {
  std::string message = reply.message;
  if (reply.step != wire::Step::kCount) message.insert(0, Prefix(reply.step));
  return Error(reply.code, std::move(message), reply.error_number);
}

class Client final : public SpawnerClient {
 public:
  explicit Client(UniqueFd socket) : socket_(std::move(socket)) {}
  ~Client() override {
    if (watch_ != 0) loop_->Unwatch(watch_);
  }

  Status Hello(Reply* hello) {
    Request request;
    request.type = RequestType::kHello;
    request.number = 1;
    ATOLL_TRY(sys::SendMessage(socket_.get(), request.Encode()));
    ATOLL_ASSIGN(const sys::Message message,
                 sys::ReceiveMessage(socket_.get(), wire::kMaxSpawnerReply));
    ATOLL_ASSIGN(*hello, wire::DecodeReply(message.bytes));
    if (hello->protocol != wire::kSpawnerProtocol) {
      return Fail(Code::kFailedPrecondition,
                  "the spawner speaks protocol " + std::to_string(hello->protocol) + ", we speak " +
                      std::to_string(wire::kSpawnerProtocol) + ": upgrade both");
    }
    if (::fcntl(socket_.get(), F_SETFL, O_NONBLOCK) != 0) return FailSys("fcntl O_NONBLOCK");
    return {};
  }

  void Start(Loop& loop, std::function<void(const wire::SandboxRecord&)> on_exit,
             std::function<void()> on_lost) override {
    loop_ = &loop;
    on_exit_ = std::move(on_exit);
    on_lost_ = std::move(on_lost);
    watch_ = loop.WatchReadable(socket_.get(), [this] { OnReadable(); });
  }

  void PrepareSlot(uint32_t slot, const wire::Limits& limits, int control, int listener,
                   Done<PreparedSlot> done) override {
    Request request;
    request.type = RequestType::kPrepareSlot;
    request.slot = slot;
    request.limits = limits;
    const int fds[] = {control, listener};
    Call(std::move(request), fds, [done = std::move(done)](Result<Answer> answer) {
      if (!answer) return done(Fail(std::move(answer).error()));
      if (answer->fds.size() != 1) {
        return done(Fail(Code::kInternal, "spawner: no socket for the slot"));
      }
      done(PreparedSlot{std::move(answer->fds[0]), answer->reply.micros});
    });
  }

  void DropSlot(uint32_t slot, Finished done) override {
    Request request;
    request.type = RequestType::kDropSlot;
    request.slot = slot;
    Order(std::move(request), std::move(done));
  }

  void Build(const wire::Plan& plan, Done<Built> done) override {
    Request request;
    request.type = RequestType::kBuild;
    request.plan = wire::EncodePlan(plan);
    Call(std::move(request), {}, [done = std::move(done)](Result<Answer> answer) {
      if (!answer) return done(Fail(std::move(answer).error()));
      done(Built{answer->reply.pid, answer->reply.micros});
    });
  }

  void SetLimits(const std::string& id, const wire::Limits& limits, Finished done) override {
    Request request;
    request.type = RequestType::kLimits;
    request.id = id;
    request.limits = limits;
    Order(std::move(request), std::move(done));
  }

  void Freeze(const std::string& id, bool frozen, Finished done) override {
    Request request;
    request.type = RequestType::kFreeze;
    request.id = id;
    request.flag = frozen;
    Order(std::move(request), std::move(done));
  }

  void Destroy(const std::string& id, Finished done) override {
    Request request;
    request.type = RequestType::kDestroy;
    request.id = id;
    Order(std::move(request), std::move(done));
  }

  void SplitArchive(int archive, int directory, Done<std::string> done) override {
    Request request;
    request.type = RequestType::kUnpack;
    request.flag = false;
    const int fds[] = {archive, directory};
    CallForText(std::move(request), fds, std::move(done));
  }

  void ExtractLayer(int blob, wire::LayerId layer, Done<std::string> done) override {
    Request request;
    request.type = RequestType::kUnpack;
    request.flag = true;
    request.layer = layer;
    CallForText(std::move(request), {&blob, 1}, std::move(done));
  }

  void PublishLayer(wire::LayerId layer, Finished done) override {
    Request request;
    request.type = RequestType::kPublishLayer;
    request.layer = layer;
    Order(std::move(request), std::move(done));
  }

  void RemoveLayer(wire::LayerId layer, Finished done) override {
    Request request;
    request.type = RequestType::kRemoveLayer;
    request.layer = layer;
    Order(std::move(request), std::move(done));
  }

  void ListLayers(Done<std::vector<wire::LayerId>> done) override {
    Request request;
    request.type = RequestType::kListLayers;
    Call(std::move(request), {}, [done = std::move(done)](Result<Answer> answer) {
      if (!answer) return done(Fail(std::move(answer).error()));
      done(std::move(answer->reply.layers));
    });
  }

  void MakeVolume(const std::string& name, uint64_t disk_bytes, Finished done) override {
    Request request;
    request.type = RequestType::kMakeVolume;
    request.limits.disk_bytes = disk_bytes;
    request.id = name;
    Order(std::move(request), std::move(done));
  }

  void RemoveVolume(const std::string& name, Finished done) override {
    Request request;
    request.type = RequestType::kRemoveVolume;
    request.id = name;
    Order(std::move(request), std::move(done));
  }

  void VolumeUse(const std::string& name, Done<wire::VolumeUse> done) override {
    Request request;
    request.type = RequestType::kVolumeUse;
    request.id = name;
    Call(std::move(request), {}, [done = std::move(done)](Result<Answer> answer) {
      if (!answer) return done(Fail(std::move(answer).error()));
      done(answer->reply.volume_use);
    });
  }

  void CheckVolume(const wire::Volume& volume, Finished done) override {
    Request request;
    request.type = RequestType::kCheckVolume;
    request.volume = wire::EncodeVolume(volume);
    Order(std::move(request), std::move(done));
  }

  void Stop(Finished done) override {
    Request request;
    request.type = RequestType::kStop;
    Order(std::move(request), std::move(done));
  }

 private:
  struct Answer {
    Reply reply;
    std::vector<UniqueFd> fds;
  };
  using Waiting = std::function<void(Result<Answer>)>;

  // Every caller's `done` runs from the loop, never from inside the call: failures to send are
  // posted.
  void Call(Request request, std::span<const int> fds, Waiting done) {
    request.number = next_number_++;
    if (lost_) return PostFailure(std::move(done), "the spawner is gone");
    const Status sent = sys::SendMessage(socket_.get(), request.Encode(), fds);
    if (!sent) return PostFailure(std::move(done), "spawner: " + sent.error().message());
    waiting_[request.number] = std::move(done);
  }

  void PostFailure(Waiting done, std::string message) {
    loop_->Post([done = std::move(done), message = std::move(message)] {
      done(Fail(Code::kUnavailable, message));
    });
  }

  void Order(Request request, Finished done) {
    Call(std::move(request), {}, [done = std::move(done)](Result<Answer> answer) {
      if (!answer) return done(Fail(std::move(answer).error()));
      done({});
    });
  }

  void CallForText(Request request, std::span<const int> fds, Done<std::string> done) {
    Call(std::move(request), fds, [done = std::move(done)](Result<Answer> answer) {
      if (!answer) return done(Fail(std::move(answer).error()));
      done(std::move(answer->reply.text));
    });
  }

  void OnReadable() {
    auto message = sys::ReceiveMessage(socket_.get(), wire::kMaxSpawnerReply);
    if (!message && message.error().error_number() == EAGAIN) return;
    if (!message || message->bytes.empty()) return Lose();
    auto reply = wire::DecodeReply(message->bytes);
    if (!reply) return Lose();
    if (reply->number == 0) {
      for (const wire::SandboxRecord& record : reply->sandboxes) on_exit_(record);
      return;
    }
    const auto found = waiting_.find(reply->number);
    if (found == waiting_.end()) return;
    const Waiting done = std::move(found->second);
    waiting_.erase(found);
    if (!reply->ok) return done(Fail(ErrorOf(*reply)));
    done(Answer{std::move(*reply), std::move(message->fds)});
  }

  void Lose() {
    loop_->Unwatch(watch_);
    watch_ = 0;
    lost_ = true;
    const auto waiting = std::move(waiting_);
    waiting_.clear();
    for (const auto& [number, done] : waiting) {
      done(Fail(Code::kUnavailable, "the spawner is gone"));
    }
    on_lost_();
  }

  UniqueFd socket_;
  Loop* loop_ = nullptr;
  Loop::Id watch_ = 0;
  bool lost_ = false;
  uint64_t next_number_ = 2;  // 1 was the hello
  std::map<uint64_t, Waiting> waiting_;
  std::function<void(const wire::SandboxRecord&)> on_exit_;
  std::function<void()> on_lost_;
};

}  // namespace

bool FailedAt(const Error& error, wire::Step step) {
  return error.message().starts_with(Prefix(step));
}

Result<std::unique_ptr<SpawnerClient>> SpawnerClient::Connect(const std::string& run_dir,
                                                              wire::Reply* hello) {
  ATOLL_ASSIGN(UniqueFd socket, ConnectSocket(run_dir + "/spawner.sock"));
  auto client = std::make_unique<Client>(std::move(socket));
  ATOLL_TRY(client->Hello(hello));
  return std::unique_ptr<SpawnerClient>(std::move(client));
}

}  // namespace atl::launch
