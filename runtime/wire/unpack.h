// The descriptors of atoll-unpack. argv[1] is the job: "split", "layer", "pack", "copy", or "fork"
// (a copy that need not survive a loss of power); or "list" or "archive" for the differences
// between two stacks of layers, followed by "now=", "was=" and "both=" with the number of layers of
// each.
#pragma once

#include <string_view>

namespace atl::wire {

// Input: the archive or blob, read-only. For a copy, the directory to read. For "pack", the file to
// write to, at its offset. For differences, the pipe to write to.
inline constexpr int kUnpackInputFd = 3;
// Output: the directory to fill. For "pack", the directory to read. For differences, the topmost
// layer.
inline constexpr int kUnpackOutputFd = 4;
// Report: a pipe for the report, or for one line with the reason of a failure. For a copy it is a
// socket. Before the report, the unpacker sends kCopyStop; the answer is any byte, once no process
// works on the source; then it sends kCopyGoOn. This happens one to kMostCopyStops times: for a
// moment before each pass over a source that changes, and for the last pass.
inline constexpr int kUnpackReportFd = 5;
// The first of the layers of a difference: those of the newer stack, those of the older one, and
// those that both share at the bottom; each topmost first.
inline constexpr int kUnpackLayersFd = 6;
inline constexpr std::string_view kCopyStop = "stop\n";
inline constexpr std::string_view kCopyGoOn = "go on\n";
inline constexpr int kMostCopyStops = 5;

}  // namespace atl::wire
