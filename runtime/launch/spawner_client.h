// The daemon's end of the connection to the spawner. Thread rule: on the loop; nothing blocks. Each
// callback runs on the loop exactly once, with kUnavailable if the connection breaks first.
//
// Requests that do not fit into the socket are queued and sent later, in order. At most
// kDestroysAtOnce Destroys are in flight, and other requests overtake those that wait. A spawner
// that answers nothing for about five seconds, not even a Ping, counts as lost; it will not carry
// out requests that it has not read by then.
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

// Duplicates a borrowed descriptor for a message.
Result<UniqueFd> Copy(int fd);

class SpawnerClient {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;
  using Finished = std::function<void(Status)>;

  static constexpr size_t kDestroysAtOnce = 64;

  // Connects and sends Hello. Blocks for at most `patience_ms`. `greeting` gets the spawner's state
  // and its sandboxes. kNotFound, kUnavailable: there is no spawner. kDeadlineExceeded: it does not
  // answer.
  static constexpr int kPatienceMs = 5000;
  static Result<std::unique_ptr<SpawnerClient>> Connect(const std::string& run_dir,
                                                        wire::Greeting* greeting,
                                                        int patience_ms = kPatienceMs);
  // Only connects, so that a stopped spawner does not block the caller. Call Start and send Hello
  // next. kDeadlineExceeded: the spawner exists, but its queue of connections is full.
  static Result<std::unique_ptr<SpawnerClient>> Open(const std::string& run_dir);
  // Stops the spawner and everything that it holds, over a separate connection. Blocks in the same
  // way.
  static Status StopNow(const std::string& run_dir);
  virtual ~SpawnerClient() = default;

  // Starts to read replies on the loop. `on_exit` is called for every first process that has ended,
  // possibly more than once for the same one. `on_lost` is called once, when the spawner is gone.
  virtual void Start(Loop& loop, std::function<void(const wire::SandboxRecord&)> on_exit,
                     std::function<void()> on_lost) = 0;

  // Sets the callback for lost volumes. Call before Start. It may be called more than once for the
  // same volume.
  virtual void OnVolumeLost(std::function<void(const wire::VolumeLost&)>) {}

  // Sends a request; wire/request.h has the messages and their answers. When a Greeting arrives,
  // all earlier answers of the spawner have been passed on. kFailedPrecondition: the spawner uses
  // another protocol.
  template <typename Message>
  void Ask(Message message, Done<typename Message::Reply> done) {
    Send(std::move(message), [done = std::move(done)](wire::Answer answer) {
      done(wire::ResultOf<typename Message::Reply>(std::move(answer)));
    });
  }

  // The untyped form of Ask.
  using Answered = std::function<void(wire::Answer)>;
  virtual void Send(wire::Message message, Answered answered) = 0;
};

}  // namespace atl::launch
