// Takes the output of every sandbox's entrypoint from its execd into a LogStore.
//
// A sandbox that floods costs what the budget allows and no more: so much is read in a tick over
// all sandboxes, one read each in turn, and from none while its last read is being written. The
// rest stays with execd, which overwrites the oldest and says so. Files are written on the pool:
// a disk that stalls or is full loses lines, and never stops the loop.
//
// What is read is a stranger's: frames that are malformed, or do not begin where the last one has
// ended, end the reading of that sandbox.
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

// What no client of the exec API may send through the daemon's proxy (wire/output.h).
inline constexpr char kExecdInternalHeader[] = "X-Atoll-Internal";
inline constexpr std::string_view kExecdInternalRoute = wire::kOutputRoute;
static_assert(kExecdInternalHeader == wire::kInternalHeader);

class EntrypointLogs {
 public:
  struct Config {
    std::string directory;  // of the LogStore; empty: nothing is kept, everything here does nothing
    uint64_t max_bytes = 2 << 20;            // of one sandbox
    int64_t keep_after_removal_seconds = 0;  // how long logs can be read after their sandbox
  };
  EntrypointLogs(Loop& loop, const Clock& clock, Config config);
  EntrypointLogs(const EntrypointLogs&) = delete;
  EntrypointLogs& operator=(const EntrypointLogs&) = delete;
  ~EntrypointLogs();

  // Gets what execd notes (wire/output.h), as a process inside the sandbox wrote it: once a minute
  // of each sandbox at most, the others are in the log's files alone. Before Start.
  void OnNote(std::function<void(const std::string& id, const std::string& text)> on_note) {
    on_note_ = std::move(on_note);
  }

  // Opens the store and removes what belongs to nobody: neither to one of `sandboxes` nor to one
  // that was removed a short time ago. An error leaves us without logs.
  Status Start(const std::unordered_set<std::string>& sandboxes);

  // A new sandbox: the socket that its StartReport came through, and what came behind that.
  void Follow(const std::string& id, UniqueFd socket, std::string_view received);
  // Neither will come.
  void Abandon(const std::string& id);
  // One that was running before us: asks its execd for what is not in the store yet. Nothing if it
  // is followed.
  void Adopt(const std::string& id, const std::string& execd_socket,
             const std::string& access_token);
  // The sandbox is gone: the files go, now or, of one that can be asked for, when they have been
  // kept long enough under the id `kept_as`. Empty: now.
  void Remove(const std::string& id, const std::string& kept_as);
  // All of them are.
  void RemoveAll();

  // The files of a sandbox, also if it was removed but its log is kept; see LogStore::OpenFiles.
  LogStore::Files OpenFiles(const std::string& id) const;
  bool kept(const std::string& id) const { return removed_.contains(id); }
  // Reads on a pool thread; `done` gets the reader's text. One call at a time for a reader.
  void Read(const std::string& id, std::shared_ptr<LogReader> reader,
            std::function<void(std::string text)> done);

  // Calls back whenever there is more in the files, and with `ended` once there will never be.
  // 0, and no call: that is so already. `coming`: the sandbox is alive, and will be followed or
  // abandoned if it is not followed yet.
  using Watcher = std::function<void(bool ended)>;
  uint64_t Watch(const std::string& id, bool coming, Watcher watcher);
  void Unwatch(const std::string& id, uint64_t watch);

  struct Stats {
    uint64_t bytes = 0;         // of output, received
    uint64_t lost = 0;          // of output, before it came here
    uint64_t write_errors = 0;  // batches that are in no file
  };
  const Stats& stats() const { return stats_; }
  size_t following() const { return streams_.size(); }

 private:
  struct Stream {
    std::string id;
    UniqueFd socket;
    Loop::Id watch = 0;
    std::optional<LineHead> head;  // of one that was adopted, before the first frame
    wire::OutputFrames frames;
    uint64_t offset = 0;                      // where the next frame begins
    int64_t time_us = 0;                      // of the last one
    std::map<std::string, int64_t> noted_us;  // when notes were passed on, a minute back
    std::string batch;                        // frames to be written
    bool begun = false;                       // not: it has watchers, and nothing to read from yet
    bool writing = false;
    bool parked = false;  // waits for its turn in queue_
    bool ended = false;   // nothing comes any more
    bool removed = false;
    std::string kept_as;  // once it is removed
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
  // The stream of `id`, which nobody feeds yet; null if somebody does.
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
  void RemoveFiles(const std::string& id, const std::string& kept_as);
  void Keep(const std::string& id, const std::string& name, int64_t removed_ms);
  void Forget(const std::string& id);

  std::function<void(const std::string&, const std::string&)> on_note_;
  Loop& loop_;
  const Clock& clock_;
  const Config config_;
  std::shared_ptr<const LogStore> store_;  // jobs of the pool hold it, too
  std::unordered_map<std::string, StreamPtr> streams_;
  std::unordered_set<std::string> has_files_;
  struct Kept {
    std::string name;
    int64_t removed_ms = 0;
    Loop::Id timer = 0;
  };
  std::unordered_map<std::string, Kept> removed_;
  std::deque<Adoption> adoptions_;
  int adopting_ = 0;
  std::deque<StreamPtr> queue_;
  Loop::Id tick_ = 0;
  int64_t tick_began_us_ = 0;
  size_t budget_ = 0;  // bytes, of the present tick
  uint64_t last_watch_ = 0;
  bool failing_ = false;  // the last write did
  Stats stats_;
  // What the pool has finished when we are gone is of no interest.
  const Guard guard_;
};

}  // namespace atl::sandbox
