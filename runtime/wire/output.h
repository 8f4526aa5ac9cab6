// The output of a sandbox's entrypoint, on its way from execd to the daemon and in the daemon's log
// files: frames (frame.h), one after the other, of at most kMaxOutputFrame bytes each.
//
//   daemon ◄── OutputFrame …  execd      behind the StartReport, on the control socket (start.h)
//
// or, for a daemon that was started later, as the answer to
//
//   GET kOutputRoute?offset=N           on execd's listening socket, with kInternalHeader:
//                                       101, then the frames from byte N of the output on
//
// Between the output stand notes: what execd has to say to the daemon about the sandbox, which is
// no output. Bytes are counted over all of it together. A frame begins where the one before it has
// ended; what execd could not keep is a kLost frame in its place. Written by a process inside the
// sandbox: hostile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/frame.h"

namespace atl::wire {

inline constexpr std::string_view kOutputRoute = "/.atoll/entrypoint/output";
// Only the daemon sends it: its proxy takes it out of what clients send, so that their token opens
// the exec API and not this.
inline constexpr std::string_view kInternalHeader = "X-Atoll-Internal";

// The notes that there are. The daemon takes one that it does not know for kOomKillNote.
inline constexpr std::string_view kOomKillNote =
    "a process was killed: its command went over the sandbox's memory limit";
inline constexpr std::string_view kPidsLimitNote =
    "a process was not started: the sandbox has as many as its limit (pids) allows";

inline constexpr size_t kMaxOutputBytes = 16 << 10;
inline constexpr size_t kMaxOutputFrame = kMaxOutputBytes + 32;

struct OutputFrame {
  enum class Kind : uint8_t { kStdout = 1, kStderr = 2, kLost = 3, kNote = 4 };
  Kind kind = Kind::kStdout;
  int64_t time_us = 0;  // since the Unix epoch
  uint64_t offset = 0;  // of its first byte
  uint64_t lost = 0;    // kLost: how many bytes are missing, at least 1
  std::string bytes;    // the others: 1 to kMaxOutputBytes

  // Where the next frame begins.
  uint64_t end() const { return offset + (kind == Kind::kLost ? lost : bytes.size()); }
  // With the length before it.
  std::string Encode() const;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.Enum(self.kind, Kind::kStdout, Kind::kNote);
    io(self.time_us, self.offset);
    self.kind == Kind::kLost ? io(self.lost) : io(self.bytes);
  }
};

// Takes frames out of a stream that arrives in pieces. Thread rule: a plain object.
class OutputFrames {
 public:
  void Append(std::string_view bytes) { frames_.Append(bytes); }
  // Nothing: the next frame is not there in full. After an error the stream is of no more use.
  Result<std::optional<OutputFrame>> Next();
  // Bytes of a frame that has not come to its end.
  size_t pending() const { return frames_.pending(); }

 private:
  Frames frames_{kMaxOutputFrame};
};

}  // namespace atl::wire
