// The output of a sandbox's entrypoint on its way from execd to the daemon, and in the daemon's log
// files: a sequence of frames (frame.h) of at most kMaxOutputFrame bytes each.
//
//   daemon ◄── OutputFrame …  execd      after the StartReport, on the control socket (start.h)
//
// or, for a daemon that was started later, as the answer to
//
//   GET kOutputRoute?offset=N            on execd's listening socket, with kInternalHeader:
//                                        101, then the frames from byte N of the output on
//
// Notes may stand between the output: messages of execd to the daemon about the sandbox. Offsets
// count the bytes of both. A frame begins where the previous one has ended. Output that execd could
// not keep is replaced by a kLost frame. The frames are written by a process in the sandbox, so
// they are hostile.
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
// Header of the daemon's own requests. The proxy removes it from clients' requests, so that an
// access token opens the exec API and not these routes.
inline constexpr std::string_view kInternalHeader = "X-Atoll-Internal";

// The known notes. The daemon treats an unknown one as kOomKillNote.
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
  uint64_t offset = 0;  // offset of the frame's first byte
  uint64_t lost = 0;    // number of missing bytes of kLost, at least 1
  std::string bytes;    // content of all others: 1 to kMaxOutputBytes

  // Offset at which the next frame begins.
  uint64_t end() const { return offset + (kind == Kind::kLost ? lost : bytes.size()); }
  // Returns the frame with its length in front.
  std::string Encode() const;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.Enum(self.kind, Kind::kStdout, Kind::kNote);
    io(self.time_us, self.offset);
    self.kind == Kind::kLost ? io(self.lost) : io(self.bytes);
  }
};

// Splits a stream that arrives in pieces into output frames. Thread rule: a plain object.
class OutputFrames {
 public:
  void Append(std::string_view bytes) { frames_.Append(bytes); }
  // Empty: the next frame is not complete yet. After an error the stream cannot be used any more.
  Result<std::optional<OutputFrame>> Next();
  // Number of bytes of an incomplete frame.
  size_t pending() const { return frames_.pending(); }

 private:
  Frames frames_{kMaxOutputFrame};
};

}  // namespace atl::wire
