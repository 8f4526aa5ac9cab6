#include "runtime/launch/spawner_client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/base/sys.h"

namespace atl::launch {
namespace {

using wire::Reply;
using wire::Request;
using wire::RequestType;

// An answer, or the absence of one, is looked for each second; the second time in a row that
// nothing has come the spawner is asked whether it is there.
constexpr int64_t kLookUs = 1000 * 1000;
constexpr int kMostSilentLooks = 5;
// What waits for room in the socket is tried again when an answer comes, or then.
constexpr int64_t kFullUs = 5 * 1000;

// `peer`: of whom we are connected to; 0: nobody has taken the connection.
Error NoAnswer(int patience_ms, pid_t peer) {
  const std::string who = peer > 0 ? " (process " + std::to_string(peer) + ")" : "";
  return Error(Code::kDeadlineExceeded,
               "the spawner" + who + " has not answered for " + std::to_string(patience_ms) +
                   " ms: it is stopped, or it hangs. kill -CONT lets it go on, kill -KILL has "
                   "another one started; sandboxes live on either way");
}

// Reading and writing end after `patience_ms` with EAGAIN; 0: at once.
Result<UniqueFd> ConnectSocket(const std::string& path, int patience_ms) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Fail(Code::kInvalidArgument,
                "'" + path + "' is too long for a socket: choose a shorter run_dir");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int flags = patience_ms == 0 ? SOCK_NONBLOCK : 0;
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!socket) return FailSys("socket");
  const timeval patience{patience_ms / 1000, patience_ms % 1000 * 1000};
  for (const int option : {SO_SNDTIMEO, SO_RCVTIMEO}) {
    if (::setsockopt(socket.get(), SOL_SOCKET, option, &patience, sizeof patience) != 0) {
      return FailSys("setsockopt SO_SNDTIMEO");
    }
  }
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    // Its queue of connections is full.
    if (errno == EAGAIN) return Fail(NoAnswer(patience_ms, 0));
    return FailSys("connect " + path);
  }
  return socket;
}

// The next packet of a connection that nothing else has been said on. Blocks.
Result<Reply> Receive(int socket, int patience_ms) {
  const auto message = sys::ReceiveMessage(socket, wire::kMaxSpawnerReply);
  if (!message && message.error().error_number() == EAGAIN) {
    ucred peer{};
    socklen_t size = sizeof peer;
    ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    return Fail(NoAnswer(patience_ms, peer.pid));
  }
  if (!message) return Fail(message.error());
  if (message->bytes.empty()) return Fail(Code::kUnavailable, "the spawner hung up");
  return wire::DecodeReply(message->bytes);
}

// One question, before anything else is said. Blocks.
Result<Reply> Ask(int socket, RequestType type, int patience_ms) {
  Request request;
  request.type = type;
  request.number = 1;
  ATOLL_TRY(sys::SendMessage(socket, request.Encode()));
  for (;;) {
    ATOLL_ASSIGN(Reply reply, Receive(socket, patience_ms));
    // Else an exit; one that comes before the hello is in it.
    if (reply.number == request.number) return reply;
  }
}

std::string Prefix(wire::Step step) {
  return "step " + std::string(wire::StepName(step)) + ": ";
}

Error ErrorOf(const Reply& reply) {
  std::string message = reply.message;
  if (reply.step != wire::Step::kCount) message.insert(0, Prefix(reply.step));
  return Error(reply.code, std::move(message), reply.error_number);
}

Status CheckProtocol(const Reply& hello) {
  if (hello.protocol == wire::kSpawnerProtocol) return {};
  return Fail(Code::kFailedPrecondition,
              "the spawner speaks protocol " + std::to_string(hello.protocol) + ", we speak " +
                  std::to_string(wire::kSpawnerProtocol) + ": upgrade both");
}

bool IsFull(const Error& error) {
  const int number = error.error_number();
  // The last: too many descriptors on their way through sockets.
  return number == EAGAIN || number == ENOBUFS || number == ENOMEM || number == ETOOMANYREFS;
}

// A reply that may come in several packets.
void Append(Reply* whole, Reply part) {
  if (whole->number == 0) {
    *whole = std::move(part);
    return;
  }
  whole->more = part.more;
  whole->sandboxes.insert(whole->sandboxes.end(), std::make_move_iterator(part.sandboxes.begin()),
                          std::make_move_iterator(part.sandboxes.end()));
}

// An exit between two parts: the record may stand in the first.
void AddExits(Reply* hello, const Reply& event) {
  for (const wire::SandboxRecord& exited : event.sandboxes) {
    for (wire::SandboxRecord& record : hello->sandboxes) {
      if (record.id == exited.id) record = exited;
    }
  }
}

class Client final : public SpawnerClient {
 public:
  explicit Client(UniqueFd socket) : socket_(std::move(socket)) {}
  ~Client() override {
    if (loop_ == nullptr) return;
    if (watch_ != 0) loop_->Unwatch(watch_);
    loop_->Cancel(full_timer_);
    loop_->Cancel(look_timer_);
  }

  Status Hello(int patience_ms, Reply* hello) {
    ATOLL_ASSIGN(*hello, Ask(socket_.get(), RequestType::kHello, patience_ms));
    while (hello->more) {
      ATOLL_ASSIGN(Reply part, Receive(socket_.get(), patience_ms));
      part.number == hello->number ? Append(hello, std::move(part)) : AddExits(hello, part);
    }
    ATOLL_TRY(CheckProtocol(*hello));
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

  void Hello(Done<Reply> done) override {
    Request request;
    request.type = RequestType::kHello;
    Call(std::move(request), {}, [done = std::move(done)](Result<Answer> answer) {
      if (!answer) return done(Fail(std::move(answer).error()));
      if (auto spoken = CheckProtocol(answer->reply); !spoken) {
        return done(Fail(std::move(spoken).error()));
      }
      done(std::move(answer->reply));
    });
  }

  void PrepareSlot(uint32_t slot, const cgroup::Limits& limits, int control, int listener,
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

  void KeepRules(int nfnetlink, Finished done) override {
    Request request;
    request.type = RequestType::kKeepRules;
    Order(std::move(request), std::move(done), {&nfnetlink, 1});
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
  struct Waiting {
    std::function<void(Result<Answer>)> done;
    bool destroys = false;
    Reply so_far;
  };
  // To be sent.
  struct Letter {
    uint64_t number = 0;
    std::string bytes;
    std::vector<UniqueFd> fds;
  };

  // Every caller's `done` runs from the loop, never from inside the call: failures to send are
  // posted.
  void Call(Request request, std::span<const int> fds, std::function<void(Result<Answer>)> done) {
    request.number = next_number_++;
    if (lost_) return PostFailure(std::move(done), Error(Code::kUnavailable, lost_why_));
    Letter letter{request.number, request.Encode(), {}};
    for (const int fd : fds) {
      // Borrowed until we return, and the letter may have to wait.
      letter.fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
      if (!letter.fds.back()) return PostFailure(std::move(done), SysError("dup a descriptor"));
    }
    const bool destroys = request.type == RequestType::kDestroy;
    if (destroys) ++destroying_;
    waiting_[request.number] = {std::move(done), destroys, {}};
    (destroys ? destroys_ : letters_).push_back(std::move(letter));
    SendLetters();
    LookLater();
  }

  // One of each kind in turn: a thousand deletes delay no create, nor the other way round.
  void SendLetters() {
    if (full_timer_ != 0) return;
    for (bool sent = true; sent;) {
      sent = SendFirst(letters_);
      if (destroying_ - destroys_.size() < kDestroysAtOnce) sent = SendFirst(destroys_) || sent;
    }
  }

  // True if it was sent, and the next may be, too.
  bool SendFirst(std::deque<Letter>& letters) {
    if (letters.empty() || full_timer_ != 0) return false;
    const Letter& letter = letters.front();
    std::vector<int> fds;
    for (const UniqueFd& fd : letter.fds) fds.push_back(fd.get());
    const Status sent = sys::SendMessage(socket_.get(), letter.bytes, fds);
    if (!sent && IsFull(sent.error())) {
      full_timer_ = loop_->After(kFullUs, [this] { RoomAgain(); });
      return false;
    }
    if (!sent) {
      // It has gone, and reading will tell; or this one can never be sent.
      const bool gone = sent.error().error_number() == EPIPE;
      const auto found = waiting_.find(letter.number);
      PostFailure(std::move(found->second.done),
                  gone ? Error(Code::kUnavailable, "the spawner is gone") : sent.error());
      if (found->second.destroys) --destroying_;
      waiting_.erase(found);
    }
    letters.pop_front();
    return true;
  }

  void RoomAgain() {
    if (full_timer_ != 0) loop_->Cancel(std::exchange(full_timer_, 0));
    SendLetters();
  }

  void PostFailure(std::function<void(Result<Answer>)> done, Error error) {
    loop_->Post([done = std::move(done), error = std::move(error)] { done(Fail(error)); });
  }

  void Order(Request request, Finished done, std::span<const int> fds = {}) {
    Call(std::move(request), fds, [done = std::move(done)](Result<Answer> answer) {
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
    if (!message || message->bytes.empty()) return Lose("the spawner is gone");
    auto reply = wire::DecodeReply(message->bytes);
    if (!reply) return Lose("the spawner answers what we do not understand");
    heard_ = true;
    if (reply->number == 0) {
      for (const wire::SandboxRecord& record : reply->sandboxes) on_exit_(record);
      return;
    }
    const auto found = waiting_.find(reply->number);
    if (found == waiting_.end()) return;
    Append(&found->second.so_far, std::move(*reply));
    if (found->second.so_far.more) return;
    Waiting waiting = std::move(found->second);
    waiting_.erase(found);
    if (waiting.destroys) --destroying_;
    RoomAgain();
    if (!waiting.so_far.ok) return waiting.done(Fail(ErrorOf(waiting.so_far)));
    waiting.done(Answer{std::move(waiting.so_far), std::move(message->fds)});
  }

  void LookLater() {
    if (look_timer_ != 0 || waiting_.empty()) return;
    look_timer_ = loop_->After(kLookUs, [this] {
      look_timer_ = 0;
      Look();
    });
  }

  void Look() {
    // In looks, not in time: if it is us who were stopped, the answers are there.
    silent_looks_ = std::exchange(heard_, false) || waiting_.empty() ? 0 : silent_looks_ + 1;
    if (silent_looks_ == kMostSilentLooks) {
      return Lose("the spawner does not answer: is it stopped?");
    }
    if (silent_looks_ == 1) {
      Request ping;
      ping.type = RequestType::kPing;
      Order(std::move(ping), [](const Status&) {});
    }
    LookLater();
  }

  void Lose(std::string why) {
    loop_->Unwatch(std::exchange(watch_, 0));
    loop_->Cancel(std::exchange(look_timer_, 0));
    loop_->Cancel(std::exchange(full_timer_, 0));
    lost_ = true;
    lost_why_ = std::move(why);
    letters_.clear();
    destroys_.clear();
    const auto waiting = std::exchange(waiting_, {});
    for (const auto& [number, request] : waiting) {
      request.done(Fail(Code::kUnavailable, lost_why_));
    }
    on_lost_();
  }

  UniqueFd socket_;
  Loop* loop_ = nullptr;
  Loop::Id watch_ = 0;
  bool lost_ = false;
  std::string lost_why_;
  uint64_t next_number_ = 2;  // 1 was the hello
  std::map<uint64_t, Waiting> waiting_;
  std::deque<Letter> letters_;
  std::deque<Letter> destroys_;
  size_t destroying_ = 0;    // of waiting_
  Loop::Id full_timer_ = 0;  // while the socket has no room
  Loop::Id look_timer_ = 0;  // while somebody waits
  bool heard_ = false;       // anything, since the last look
  int silent_looks_ = 0;     // in a row
  std::function<void(const wire::SandboxRecord&)> on_exit_;
  std::function<void()> on_lost_;
};

}  // namespace

bool FailedAt(const Error& error, wire::Step step) {
  return error.message().starts_with(Prefix(step));
}

Result<std::unique_ptr<SpawnerClient>> SpawnerClient::Connect(const std::string& run_dir,
                                                              wire::Reply* hello, int patience_ms) {
  ATOLL_ASSIGN(UniqueFd socket, ConnectSocket(run_dir + "/spawner.sock", patience_ms));
  auto client = std::make_unique<Client>(std::move(socket));
  ATOLL_TRY(client->Hello(patience_ms, hello));
  return std::unique_ptr<SpawnerClient>(std::move(client));
}

Result<std::unique_ptr<SpawnerClient>> SpawnerClient::Open(const std::string& run_dir) {
  ATOLL_ASSIGN(UniqueFd socket, ConnectSocket(run_dir + "/spawner.sock", 0));
  return std::unique_ptr<SpawnerClient>(std::make_unique<Client>(std::move(socket)));
}

Status SpawnerClient::StopNow(const std::string& run_dir) {
  ATOLL_ASSIGN(const UniqueFd socket, ConnectSocket(run_dir + "/spawner.sock", kPatienceMs));
  ATOLL_ASSIGN(const Reply reply, Ask(socket.get(), RequestType::kStop, kPatienceMs));
  if (!reply.ok) return Fail(ErrorOf(reply));
  return {};
}

}  // namespace atl::launch
