// The daemon's end of the spawner connection. Thread rule: on the loop; nothing blocks; callbacks
// run on the loop, each exactly once (with kUnavailable if the connection breaks first).
//
// Requests that do not fit into the socket wait here and are sent later, in order; at most
// kDestroysAtOnce of Destroy are under way, and others pass those that wait. A spawner that answers
// nothing for some five seconds, not even whether it is there, counts as lost: what it has not read
// by then it will not carry out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/reply.h"
#include "runtime/wire/request.h"

namespace atl::launch {

// For a message, of a descriptor that stays somebody else's.
Result<UniqueFd> Copy(int fd);

class SpawnerClient {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;
  using Finished = std::function<void(Status)>;

  static constexpr size_t kDestroysAtOnce = 64;

  // Connects and says hello, blocking, for at most `patience_ms`. `greeting` receives what the
  // spawner is and which sandboxes it holds. kNotFound, kUnavailable: there is none;
  // kDeadlineExceeded: there is one, and it does not answer.
  static constexpr int kPatienceMs = 5000;
  static Result<std::unique_ptr<SpawnerClient>> Connect(const std::string& run_dir,
                                                        wire::Greeting* greeting,
                                                        int patience_ms = kPatienceMs);
  // Connects and no more: a stopped spawner does not block it. Start and Hello come next.
  // kDeadlineExceeded: it is there, and has not accepted those before us.
  static Result<std::unique_ptr<SpawnerClient>> Open(const std::string& run_dir);
  // Ends the spawner and all that it holds, over a connection of its own, blocking likewise.
  static Status StopNow(const std::string& run_dir);
  virtual ~SpawnerClient() = default;

  // Begins to read replies on the loop. `on_exit` is told of every first process that ended,
  // possibly more than once for the same one; `on_lost` once, when the spawner is gone.
  virtual void Start(Loop& loop, std::function<void(const wire::SandboxRecord&)> on_exit,
                     std::function<void()> on_lost) = 0;

  // To be told of each, before Start; possibly more than once of the same one.
  virtual void OnVolumeLost(std::function<void(const wire::VolumeLost&)>) {}

  // What each message asks for, and what can come of it: wire/request.h. When a Greeting comes, all
  // answers that the spawner has given before have been passed on; kFailedPrecondition: it speaks
  // another protocol.
  template <typename Message>
  void Ask(Message message, Done<typename Message::Reply> done) {
    Send(std::move(message), [done = std::move(done)](wire::Answer answer) {
      done(wire::ResultOf<typename Message::Reply>(std::move(answer)));
    });
  }

  // What Ask says, without the types.
  using Answered = std::function<void(wire::Answer)>;
  virtual void Send(wire::Message message, Answered answered) = 0;
};

}  // namespace atl::launch
