// Recordings of terminals, in the form asciicast v2:
//
//   <directory>/<sandbox id>/<recording id>.cast
//
// A recording stays with its sandbox, and then with the sandbox's entry of the history. Each event
// is one line, written with one write(2) before the terminal's bytes are passed on. It is then in
// the page cache and survives the death of the daemon.
//
// Files are 0600, directories 0700. They are not encrypted. Control characters are escaped, so that
// a file can be shown on a terminal.
//
// Thread rule: on the loop, except ListRecordings and OpenRecording.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::sandbox {

class Recording;

// The recordings of one sandbox.
struct RecordingShare {
  uint64_t bytes = 0;  // size on disk of those that have ended
  size_t files = 0;    // all of them
  std::set<const Recording*> open;
};
using RecordingShares = std::map<std::string, RecordingShare>;  // the key is the sandbox's id

// A recording that is being written. Ends with its last reference.
class Recording {
 public:
  // `path` is that of `file`, which is empty. `most`: the size that it may reach, in bytes.
  Recording(std::string sandbox, std::string id, std::string path, UniqueFd file, uint64_t most,
            int64_t began_us, std::shared_ptr<RecordingShares> shares);
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording();

  const std::string& id() const { return id_; }
  // Append an event at `now_us`, of the boot clock. kResourceExhausted: the recording has its full
  // size. After an error the file ends with the last whole event.
  Status Output(std::string_view bytes, int64_t now_us) { return Text('o', bytes, now_us); }
  Status Input(std::string_view bytes, int64_t now_us) { return Text('i', bytes, now_us); }
  Status Resize(int columns, int rows, int64_t now_us);
  // Removes the file: nothing was shown.
  void Discard();

  uint64_t size() const { return size_; }
  uint64_t most() const { return most_; }

 private:
  friend class Recordings;
  Status Text(char kind, std::string_view bytes, int64_t now_us);
  Status Event(char kind, const std::string& text, int64_t now_us);
  Status Append(const std::string& line);

  const std::string sandbox_, id_, path_;
  const UniqueFd file_;
  const uint64_t most_;
  const int64_t began_us_;
  const std::shared_ptr<RecordingShares> shares_;
  uint64_t size_ = 0;
  bool discarded_ = false;
  // The start of a character whose rest has not arrived: of output, of input.
  std::string begun_[2];
};

class Recordings {
 public:
  static constexpr uint64_t kMaxBytes = 16 << 20;  // size of one recording
  static constexpr uint64_t kMinBytes = 64 << 10;  // least room with which one begins
  static constexpr size_t kMostOfSandbox = 4096;

  // `directory` is made if it is absent; its parent must exist when the first recording begins.
  // Empty: nothing can be recorded.
  Recordings(Loop& loop, std::string directory);
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;

  enum class Holder {
    kNobody,   // neither the sandbox nor an entry of the history: its recordings are removed
    kEntry,    // an entry, which knows their size
    kSandbox,  // the sandbox is there
  };
  // Finds what an earlier daemon has recorded. Call once, before Begin.
  void Recover(const std::function<Holder(const std::string& sandbox)>& holder_of);

  struct Terminal {
    std::string sandbox;
    std::string actor;     // id of the key that opened it; empty: a token did
    std::string terminal;  // execd's id of it
    bool input = false;    // input is recorded, too
  };
  // `room`: bytes that the sandbox's owner has left for recordings. kResourceExhausted: less than
  // kMinBytes, too many recordings, or the disk is full.
  Result<std::shared_ptr<Recording>> Begin(const Terminal& terminal, uint64_t room, int64_t unix_ms,
                                           int64_t now_us);
  // Returns the size on disk of a sandbox's recordings: as it is, and as it may become without
  // another Begin.
  uint64_t SizeOf(const std::string& sandbox) const;
  uint64_t MostOf(const std::string& sandbox) const;
  void Remove(const std::string& sandbox);

  const std::string& directory() const { return directory_; }

 private:
  Loop& loop_;
  const std::string directory_;
  // Recordings that end after this object have it, too.
  const std::shared_ptr<RecordingShares> shares_ = std::make_shared<RecordingShares>();
};

struct RecordingInfo {
  std::string id;
  uint64_t bytes = 0;
  std::string head;  // the first line, a JSON object
};
// Returns a sandbox's recordings, oldest first; none if it has none. Reads files, on any thread.
Result<std::vector<RecordingInfo>> ListRecordings(const std::string& directory,
                                                  const std::string& sandbox);
// kNotFound: there is no such recording. Any thread.
Result<UniqueFd> OpenRecording(const std::string& directory, const std::string& sandbox,
                               const std::string& id);

}  // namespace atl::sandbox
