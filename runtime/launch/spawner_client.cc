#include "runtime/launch/spawner_client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <deque>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/base/unix_address.h"
#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"

namespace atl::launch {
namespace {

using wire::Reply;
using wire::Request;

// Interval in which answers are checked. If none has come twice in a row, the spawner gets a Ping.
constexpr int64_t kLookUs = 1000 * 1000;
constexpr int kMostSilentLooks = 5;
// A full socket is tried again when an answer arrives, or after this time.
constexpr int64_t kFullUs = 5 * 1000;

// `peer`: the process at the other end; 0: no process has accepted the connection.
Error NoAnswer(int patience_ms, pid_t peer) {
  const std::string who = peer > 0 ? " (process " + std::to_string(peer) + ")" : "";
  return Error(Code::kDeadlineExceeded,
               "the spawner" + who + " has not answered for " + std::to_string(patience_ms) +
                   " ms: it is stopped, or it hangs. kill -CONT resumes it; after kill -KILL "
                   "another one is started; sandboxes keep running either way");
}

// Connects. Reads and writes fail with EAGAIN after `patience_ms`; 0: nonblocking.
Result<UniqueFd> ConnectSocket(const std::string& path, int patience_ms) {
  ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(path));
  const int flags = patience_ms == 0 ? SOCK_NONBLOCK : 0;
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
  if (!socket) return FailSys("socket");
  const timeval patience{patience_ms / 1000, patience_ms % 1000 * 1000};
  for (const int option : {SO_SNDTIMEO, SO_RCVTIMEO}) {
    if (::setsockopt(socket.get(), SOL_SOCKET, option, &patience, sizeof patience) != 0) {
      return FailSys("setsockopt SO_SNDTIMEO");
    }
  }
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    // The spawner's queue of connections is full.
    if (errno == EAGAIN) return Fail(NoAnswer(patience_ms, 0));
    return FailSys("connect " + path);
  }
  return socket;
}

// Receives the next packet of a connection on which nothing else was sent. Blocks.
Result<Reply> Receive(int socket, int patience_ms) {
  auto message = sys::ReceiveMessage(socket, wire::kMaxSpawnerReply);
  if (!message && message.error().error_number() == EAGAIN) {
    ucred peer{};
    socklen_t size = sizeof peer;
    ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    return Fail(NoAnswer(patience_ms, peer.pid));
  }
  if (!message) return Fail(message.error());
  if (message->bytes.empty()) return Fail(Code::kUnavailable, "the spawner closed the connection");
  return wire::DecodeReply(message->bytes, message->fds);
}

Status Say(int socket, const Request& request) {
  const wire::Packet packet = wire::EncodePacket(request);
  return sys::SendMessage(socket, packet.bytes, packet.descriptors);
}

Status CheckProtocol(uint32_t theirs) {
  if (theirs == wire::kSpawnerProtocol) return {};
  return Fail(Code::kFailedPrecondition,
              "the spawner speaks protocol " + std::to_string(theirs) + ", we speak " +
                  std::to_string(wire::kSpawnerProtocol) + ": upgrade both");
}

using Records = std::vector<wire::SandboxRecord>;

void Append(Records* list, Records more) {
  list->insert(list->end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
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

  // Sends Hello and reads the Greeting before any other request. Blocks.
  Status Hello(int patience_ms, wire::Greeting* greeting) {
    constexpr uint64_t kNumber = 1;
    ATOLL_TRY(Say(socket_.get(), {kNumber, wire::Hello()}));
    Records list;
    for (bool more = true; more;) {
      ATOLL_ASSIGN(Reply reply, Receive(socket_.get(), patience_ms));
      // The spawner repeats this message after the list.
      if (std::holds_alternative<wire::VolumeLost>(reply.answer)) continue;
      if (const auto* event = std::get_if<wire::Exited>(&reply.answer)) {
        // The sandbox may have been listed as running; if not, its record will be current.
        for (wire::SandboxRecord& record : list) {
          if (record.id == event->sandbox.id) record = event->sandbox;
        }
        continue;
      }
      ATOLL_ASSIGN(*greeting, wire::ResultOf<wire::Greeting>(std::move(reply.answer)));
      ATOLL_TRY(CheckProtocol(greeting->protocol));
      Append(&list, std::move(greeting->sandboxes));
      more = greeting->more;
    }
    greeting->sandboxes = std::move(list);
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

  void OnVolumeLost(std::function<void(const wire::VolumeLost&)> on_volume_lost) override {
    on_volume_lost_ = std::move(on_volume_lost);
  }

  // Every `answered` runs from the loop, never from within this call: failures to send are posted.
  void Send(wire::Message message, Answered answered) override {
    if (lost_) return PostFailure(std::move(answered), Error(Code::kUnavailable, lost_why_));
    Request request{next_number_++, std::move(message)};
    const bool destroys = std::holds_alternative<wire::Destroy>(request.message);
    if (destroys) ++destroying_;
    waiting_[request.number] = {std::move(answered), destroys, {}};
    (destroys ? destroys_ : requests_).push_back(std::move(request));
    SendRequests();
    LookLater();
  }

 private:
  struct Waiting {
    Answered answered;
    bool destroys = false;
    Records list;  // the part of a greeting that has arrived
  };

  // Sends one request of each queue in turn, so that a thousand deletes do not delay a create, nor
  // the other way round.
  void SendRequests() {
    if (full_timer_ != 0) return;
    for (bool sent = true; sent;) {
      sent = SendFirst(requests_);
      if (destroying_ - destroys_.size() < kDestroysAtOnce) sent = SendFirst(destroys_) || sent;
    }
  }

  // Returns true if a request was sent and the next one may follow.
  bool SendFirst(std::deque<Request>& requests) {
    if (requests.empty() || full_timer_ != 0) return false;
    const Status sent = Say(socket_.get(), requests.front());
    if (!sent && sys::HasNoRoom(sent.error())) {
      full_timer_ = loop_->After(kFullUs, [this] { RoomAgain(); });
      return false;
    }
    if (!sent) {
      // EPIPE: the spawner is gone, and the read side will report it. Otherwise this request can
      // never be sent.
      const bool gone = sent.error().error_number() == EPIPE;
      const auto found = waiting_.find(requests.front().number);
      PostFailure(std::move(found->second.answered),
                  gone ? Error(Code::kUnavailable, "the spawner is gone") : sent.error());
      if (found->second.destroys) --destroying_;
      waiting_.erase(found);
    }
    requests.pop_front();
    return true;
  }

  void RoomAgain() {
    if (full_timer_ != 0) loop_->Cancel(std::exchange(full_timer_, 0));
    SendRequests();
  }

  void PostFailure(Answered answered, const Error& error) {
    loop_->Post(
        [answered = std::move(answered), failed = wire::Failed::Of(error)] { answered(failed); });
  }

  void OnReadable() {
    auto message = sys::ReceiveMessage(socket_.get(), wire::kMaxSpawnerReply);
    if (!message && message.error().error_number() == EAGAIN) return;
    if (!message || message->bytes.empty()) return Lose("the spawner is gone");
    auto reply = wire::DecodeReply(message->bytes, message->fds);
    if (!reply) return Lose(reply.error().message());
    heard_ = true;
    if (const auto* event = std::get_if<wire::Exited>(&reply->answer)) {
      return on_exit_(event->sandbox);
    }
    if (const auto* lost = std::get_if<wire::VolumeLost>(&reply->answer)) {
      if (on_volume_lost_) on_volume_lost_(*lost);
      return;
    }
    const auto found = waiting_.find(reply->number);
    if (found == waiting_.end()) return;
    if (auto* greeting = std::get_if<wire::Greeting>(&reply->answer)) {
      Append(&found->second.list, std::move(greeting->sandboxes));
      if (greeting->more) return;
      greeting->sandboxes = std::move(found->second.list);
      if (auto same = CheckProtocol(greeting->protocol); !same) {
        reply->answer = wire::Failed::Of(same.error());
      }
    }
    const Waiting waiting = std::move(found->second);
    waiting_.erase(found);
    if (waiting.destroys) --destroying_;
    RoomAgain();
    waiting.answered(std::move(reply->answer));
  }

  void LookLater() {
    if (look_timer_ != 0 || waiting_.empty()) return;
    look_timer_ = loop_->After(kLookUs, [this] {
      look_timer_ = 0;
      Look();
    });
  }

  void Look() {
    // Counted in checks, not in time: if this process was stopped, the answers are waiting.
    silent_looks_ = std::exchange(heard_, false) || waiting_.empty() ? 0 : silent_looks_ + 1;
    if (silent_looks_ == kMostSilentLooks) {
      return Lose("the spawner does not answer: is it stopped?");
    }
    if (silent_looks_ == 1) {
      Send(wire::Ping(), [](const wire::Answer&) {});
    }
    LookLater();
  }

  void Lose(std::string why) {
    loop_->Unwatch(std::exchange(watch_, 0));
    loop_->Cancel(std::exchange(look_timer_, 0));
    loop_->Cancel(std::exchange(full_timer_, 0));
    lost_ = true;
    lost_why_ = std::move(why);
    requests_.clear();
    destroys_.clear();
    const auto waiting = std::exchange(waiting_, {});
    for (const auto& [number, request] : waiting) {
      request.answered(wire::Failed{.code = Code::kUnavailable, .message = lost_why_});
    }
    on_lost_();
  }

  UniqueFd socket_;
  Loop* loop_ = nullptr;
  Loop::Id watch_ = 0;
  bool lost_ = false;
  std::string lost_why_;
  uint64_t next_number_ = 2;  // 1 was the Hello
  std::map<uint64_t, Waiting> waiting_;
  std::deque<Request> requests_;  // not sent yet
  std::deque<Request> destroys_;
  size_t destroying_ = 0;    // number of Destroys in waiting_
  Loop::Id full_timer_ = 0;  // set while the socket has no room
  Loop::Id look_timer_ = 0;  // set while a request waits
  bool heard_ = false;       // something arrived since the last check
  int silent_looks_ = 0;     // number in a row
  std::function<void(const wire::SandboxRecord&)> on_exit_;
  std::function<void()> on_lost_;
  std::function<void(const wire::VolumeLost&)> on_volume_lost_;
};

}  // namespace

Result<UniqueFd> Copy(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) return FailSys("fcntl F_DUPFD_CLOEXEC " + std::to_string(fd));
  return copy;
}

Result<std::unique_ptr<SpawnerClient>> SpawnerClient::Connect(const std::string& run_dir,
                                                              wire::Greeting* greeting,
                                                              int patience_ms) {
  ATOLL_ASSIGN(UniqueFd socket, ConnectSocket(run_dir + "/spawner.sock", patience_ms));
  auto client = std::make_unique<Client>(std::move(socket));
  ATOLL_TRY(client->Hello(patience_ms, greeting));
  return std::unique_ptr<SpawnerClient>(std::move(client));
}

Result<std::unique_ptr<SpawnerClient>> SpawnerClient::Open(const std::string& run_dir) {
  ATOLL_ASSIGN(UniqueFd socket, ConnectSocket(run_dir + "/spawner.sock", 0));
  return std::unique_ptr<SpawnerClient>(std::make_unique<Client>(std::move(socket)));
}

Status SpawnerClient::StopNow(const std::string& run_dir) {
  ATOLL_ASSIGN(const UniqueFd socket, ConnectSocket(run_dir + "/spawner.sock", kPatienceMs));
  ATOLL_TRY(Say(socket.get(), {1, wire::Stop()}));
  for (;;) {
    ATOLL_ASSIGN(Reply reply, Receive(socket.get(), kPatienceMs));
    // Number 0 reports the end of a sandbox.
    if (reply.number != 0) return wire::ResultOf<void>(std::move(reply.answer));
  }
}

}  // namespace atl::launch
