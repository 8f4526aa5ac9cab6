// Moves the output of every sandbox's entrypoint from its execd into a LogStore.
//
// A sandbox that floods is limited to the budget: each tick reads a bounded amount over all
// sandboxes, one read per sandbox in turn, and none from a sandbox whose last read is still being
// written. execd buffers the rest, overwrites the oldest bytes, and reports the loss. The pool
// writes the files, so a stalled or full disk loses lines and never blocks the loop.
//
// The input is hostile. A malformed frame, or a frame whose offset does not follow the previous
// one, stops the log of that sandbox.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/unique_fd.h"
#include "runtime/sandbox/output/execd_line.h"
#include "runtime/sandbox/output/log_reader.h"
#include "runtime/sandbox/output/log_store.h"
#include "runtime/wire/output.h"

namespace atl::sandbox {

// The daemon's proxy rejects this header and this route in requests of exec API clients
// (wire/output.h).
inline constexpr char kExecdInternalHeader[] = "X-Atoll-Internal";
inline constexpr std::string_view kExecdInternalRoute = wire::kOutputRoute;
static_assert(kExecdInternalHeader == wire::kInternalHeader);

class EntrypointLogs {
 public:
  struct Config {
    std::string directory;         // empty: keeps no logs, and all functions do nothing
    uint64_t max_bytes = 2 << 20;  // limit per sandbox
  };
  EntrypointLogs(Loop& loop, const Clock& clock, Config config);
  EntrypointLogs(const EntrypointLogs&) = delete;
  EntrypointLogs& operator=(const EntrypointLogs&) = delete;
  ~EntrypointLogs();

  // Registers a receiver of execd's notes (wire/output.h). A process inside the sandbox may have
  // written the text. Passes on each note at most once a minute per sandbox; the log files have all
  // of them. Call before Start.
  void OnNote(std::function<void(const std::string& id, const std::string& text)> on_note) {
    on_note_ = std::move(on_note);
  }

  // Opens the store. Removes all logs but `kept`. After an error there are no logs.
  Status Start(const std::unordered_set<std::string>& kept);

  // Follows a new sandbox: `socket` carried its StartReport, `received` are the bytes that followed
  // it.
  void Follow(const std::string& id, UniqueFd socket, std::string_view received);
  // Call instead of Follow if the sandbox will have no output.
  void Abandon(const std::string& id);
  // Follows a sandbox that ran before this daemon: asks its execd for output that is not in the
  // store. Does nothing if it is followed already.
  void Adopt(const std::string& id, const std::string& execd_socket,
             const std::string& access_token);
  // Call when the sandbox is gone, or its log is no longer kept. Removes its files.
  void Remove(const std::string& id);
  // Call instead of Remove if the log is kept until Remove. Takes the rest of the output, then
  // calls `complete` with the size of the files. Returns false, without a call, if nothing was
  // written and nothing will be.
  bool Leave(const std::string& id, std::function<void(uint64_t bytes)> complete);
  // Calls `done` with the size of a log's files.
  void Measure(const std::string& id, std::function<void(uint64_t bytes)> done);

  // Opens the files of a sandbox. See LogStore::OpenFiles.
  LogStore::Files OpenFiles(const std::string& id) const;
  // Reads on a pool thread and calls `done` with the reader's text. A reader allows one call at a
  // time.
  void Read(const std::string& id, std::shared_ptr<LogReader> reader,
            std::function<void(std::string text)> done);

  // Calls back whenever the files grow, and with `ended` after the last bytes. Returns 0, without a
  // call, if the log has ended already. `coming`: the sandbox is alive, so Follow or Abandon will
  // be called if it has not been.
  using Watcher = std::function<void(bool ended)>;
  uint64_t Watch(const std::string& id, bool coming, Watcher watcher);
  void Unwatch(const std::string& id, uint64_t watch);

  struct Stats {
    uint64_t bytes = 0;         // bytes of output received
    uint64_t lost = 0;          // bytes of output that were lost before they arrived
    uint64_t write_errors = 0;  // batches that could not be written
  };
  const Stats& stats() const { return stats_; }
  size_t following() const { return streams_.size(); }

 private:
  struct Stream {
    std::string id;
    UniqueFd socket;
    Loop::Id watch = 0;
    std::optional<LineHead> head;  // expected before the first frame of an adopted sandbox
    wire::OutputFrames frames;
    uint64_t offset = 0;                      // expected offset of the next frame
    int64_t time_us = 0;                      // time of the last frame
    std::map<std::string, int64_t> noted_us;  // when notes were passed on, one minute back
    std::string batch;                        // frames to write
    bool begun = false;                       // false: it has watchers, but no socket yet
    bool writing = false;
    bool parked = false;  // waits for its turn in queue_
    bool ended = false;   // nothing comes any more
    bool removed = false;
    std::function<void(uint64_t bytes)> complete;  // set by Leave
    std::map<uint64_t, Watcher> watchers;
  };
  using StreamPtr = std::shared_ptr<Stream>;
  enum class Arrival { kSome, kNone, kEnd };

  struct Adoption {
    StreamPtr stream;
    std::string execd_socket;
    std::string access_token;
  };

  StreamPtr Find(const std::string& id) const;
  void AdoptNext();
  // Returns the stream of `id` if it has no source yet; null if it has one.
  StreamPtr Begin(const std::string& id);
  void Connect(const StreamPtr& stream, const std::string& execd_socket,
               const std::string& access_token);
  void Listen(const StreamPtr& stream);
  void StopListening(const StreamPtr& stream);
  void OnReadable(const StreamPtr& stream);
  Arrival ReadOnce(const StreamPtr& stream);
  Status Take(Stream& stream, std::string_view bytes);
  Status TakeFrame(Stream& stream, wire::OutputFrame frame);
  void PassOn(Stream& stream, const std::string& note);
  bool HasBudget();
  void Park(const StreamPtr& stream);
  void Tick();
  void Write(const StreamPtr& stream);
  void Written(const StreamPtr& stream, const Status& status, size_t bytes);
  void End(const StreamPtr& stream);
  void Finish(const StreamPtr& stream);
  void RemoveFiles(const std::string& id);

  std::function<void(const std::string&, const std::string&)> on_note_;
  Loop& loop_;
  const Clock& clock_;
  const Config config_;
  std::shared_ptr<const LogStore> store_;  // jobs of the pool hold references, too
  std::unordered_map<std::string, StreamPtr> streams_;
  std::unordered_set<std::string> has_files_;
  std::deque<Adoption> adoptions_;
  int adopting_ = 0;
  std::deque<StreamPtr> queue_;
  Loop::Id tick_ = 0;
  int64_t tick_began_us_ = 0;
  size_t budget_ = 0;  // remaining bytes of the present tick
  uint64_t last_watch_ = 0;
  bool failing_ = false;  // the last write failed
  Stats stats_;
  // Results of the pool are ignored after this object is gone.
  const Guard guard_;
};

}  // namespace atl::sandbox
